-- Which of these workers may still have processes: entered, not left, not fenced.
select worker::text from stoker.workers where worker = any(:workers::uuid[]) and exited_at is null and fenced_at is null
