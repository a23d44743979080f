select interlocks, fire from stoker.fires order by fire desc limit 1
