insert into stoker.lanes (lane) values (:lane) on conflict do nothing
