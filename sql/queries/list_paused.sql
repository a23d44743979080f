select mode, actor, reason, since from stoker.paused order by mode
