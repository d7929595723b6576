-- Why the last push to a webhook failed, so that whoever asked can see it. Null once one was taken. At: milliseconds.
alter table push_configs add column last_error text;
alter table push_configs add column last_error_at bigint;
