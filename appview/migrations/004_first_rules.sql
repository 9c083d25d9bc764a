-- The log of changes begins with the rules that this file itself began with: whoever reads it from its start
-- knows every rule there ever was. `at` of a file that is older than this entry is that of its first entry.
INSERT INTO audit (id, at, actor, action, before, after, version)
SELECT
    0,
    coalesce(min(at), CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    'engram-appview',
    'first start',
    '[]',
    json_array(
        json_array('p', 'role:member',    '*', 'path:/*', 'read',   'allow'),
        json_array('p', 'role:member',    '*', 'path:/*', 'write',  'allow'),
        json_array('p', 'role:member',    '*', 'path:/*', 'delete', 'allow'),
        json_array('p', 'role:authority', '*', 'path:/*', 'read',   'allow'),
        json_array('p', 'role:authority', '*', 'path:/*', 'write',  'allow'),
        json_array('p', 'role:authority', '*', 'path:/*', 'delete', 'allow'),
        json_array('p', 'role:authority', '*', 'path:/*', 'admin',  'allow'),
        json_array('p', 'role:operator',  '*', 'path:/*', 'admin',  'allow')
    ),
    1
FROM audit;
