#!/bin/sh
# Makes the two roles when the database is new: the owner of stoker's tables, and the one that runs and owns nothing.
# Their passwords are those of the URLs in SECRETS (default /run/secrets).
set -eu
secrets=${SECRETS:-/run/secrets}

password() {
    sed -n 's|^postgresql://[^:]*:\([^@]*\)@.*$|\1|p' "$secrets/$1"
}

psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-stoker}" \
    -v "owner=$(password owner_url)" -v "run=$(password run_url)" -v "database=${POSTGRES_DB:-stoker}" <<'SQL'
create role stoker_owner login password :'owner';
create role stoker_run login password :'run';
revoke all on database :"database" from public;
grant connect, create, temporary on database :"database" to stoker_owner;
grant connect on database :"database" to stoker_run;
SQL
