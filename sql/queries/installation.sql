select id::text, leapt_at from stoker.installation
