-- What a drill left behind that did not live to clean up; its incident is over as any other is.
delete from stoker.schedules where drill_until < now() returning schedule
