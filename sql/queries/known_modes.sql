select mode from stoker.modes order by mode
