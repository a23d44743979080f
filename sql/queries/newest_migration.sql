select coalesce(max(number), 0) from stoker.migrations
