-- A message for each channel that a fire's note is sent by; in the transaction that writes the note.
insert into stoker.outbox (kind, channel, fire, state)
select 'note', channel, :fire, :state from unnest(:channels::text[]) as c (channel)
