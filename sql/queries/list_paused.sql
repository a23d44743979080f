select mode, actor, reason, since from stoker.paused where mode <> '*' order by mode
