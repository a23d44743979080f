insert into stoker.channels (channel) select unnest(:channels::text[]) on conflict do nothing
