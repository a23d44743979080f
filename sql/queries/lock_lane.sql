-- The one row that admission locks first; what is counted, is counted in later statements.
select lane from stoker.lanes where lane = :lane for update
