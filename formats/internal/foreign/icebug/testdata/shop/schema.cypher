// as Ladybug and the converter write it
CREATE NODE TABLE `user` (`id` STRING,`age` INT64, born DATE, tags STRING[], photo BLOB, PRIMARY KEY(`id`)) WITH (storage = 'x', format = 'icebug-disk');
create node table if not exists City(id INT32 PRIMARY KEY, name STRING) WITH (storage = '');
CREATE REL TABLE follows(FROM user TO user, since INT32, note STRING, MANY_MANY) WITH (storage = '', format = 'icebug-disk');
CREATE REL TABLE LivesIn(FROM `user` TO city) WITH (storage = 'icebug-disk:');
COMMENT ON TABLE user IS 'a; b';
