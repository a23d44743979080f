update stoker.channels set token = null, claimed_until = null where channel = :channel and token = :token
