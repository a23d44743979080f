-- Who stands behind others of a line, by mode.
select mode, count(*) as count from stoker.in_line group by mode order by mode
