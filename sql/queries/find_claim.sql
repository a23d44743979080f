-- After a COMMIT whose reply was lost: does this claim stand, and at which step?
select step from stoker.claims where token = :token
