-- Say whose the schema is, unless somebody has.
update stoker.installation set environment = :name where environment is null
