select extract(epoch from now() - created_at)::float8 as seconds from stoker.installation
