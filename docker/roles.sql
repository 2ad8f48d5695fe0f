-- Makes the role of the service, which owns nothing and is no superuser, or changes its password.
-- `setwise db upgrade` grants it what it needs. Run by psql as the tables' owner, each time.
\set ON_ERROR_STOP on
\getenv password POSTGRES_SERVICE_PASSWORD
SELECT 'CREATE ROLE setwise_service'
  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'setwise_service') \gexec
ALTER ROLE setwise_service
  LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
