-- Lines that lost their front while somebody came to stand behind it: the first of each comes to the front.
with first as (
    delete from stoker.in_line where id = any(array(
        select distinct on (mode, lane_key) id from stoker.in_line i
        where not exists (select from stoker.lines l where l.mode = i.mode and l.lane_key = i.lane_key)
        order by mode, lane_key, id))
    returning id, available_at
)
select count(stoker.place(id, 0, available_at)) as opened from first
