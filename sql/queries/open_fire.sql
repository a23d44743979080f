-- Enter a fire, open or refused.
insert into stoker.fires (key, lane, state, refusal, reason, day, lease_until, deadline_at, interlocks, code_version, owner)
values (:key, :lane, :state, :refusal, :reason, :day,
        case when :refusal::text is null then now() + make_interval(secs => :lease) end,
        case when :refusal::text is null then now() + make_interval(secs => :deadline::float8) end,
        :interlocks, :code_version, :owner)
returning fire
