-- One task; the id of it, or of the one that has its key.
select stoker.enqueue(:mode::text, :payload::json, :priority::integer, :version::integer, :max_attempts::integer,
                      :available_at::timestamptz, :expires_at::timestamptz, :tags::text[], :lane_key::text, :needs_approval,
                      :key::text, :key_seconds::float8, :retry_terminal, true)
