-- A cause that is found now: one open incident, whatever its words say today. Returns whether it is new.
insert into stoker.incidents as i (cause, words) values (:cause, :words)
on conflict (cause) where resolved_at is null do update set seen_at = now(), words = excluded.words
returning xmax = 0 as is_new
