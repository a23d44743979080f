-- Who this schema is, when its clock was last seen to leap, whether it came out of a dump since anybody looked, and whose it is.
select id::text, leapt_at, tasks is distinct from 'stoker.tasks'::regclass as is_restored, environment from stoker.installation
