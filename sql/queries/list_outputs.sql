select attempt, output from stoker.outputs where id = :id order by attempt
