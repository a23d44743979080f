-- Queue a failed or cancelled task again; false when it is neither.
select stoker.reopen(:id)
