-- The limits of the last fire; a wrapped job has its own.
select interlocks, fire from stoker.fires where reason is distinct from 'wrapped' order by fire desc limit 1
