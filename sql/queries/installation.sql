-- Who this schema is, when its clock was last seen to leap, and whether it came out of a dump since anybody looked.
select id::text, leapt_at, tasks is distinct from 'stoker.tasks'::regclass as is_restored from stoker.installation
