package source

import (
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
)

// withRules has the file read as the rules of its columns say.
func (t *Fit) withRules(names *payload.Names, sources []payload.Source) error {
	for i, s := range sources {
		if rule, zone := names.Rule(i); s.Name != "" && (rule.Scale != nil || rule.INT96) && zone == nil {
			return &parquetfile.Error{File: t.file.Name(), RowGroup: -1, Column: s.Name, Reason: "scale and int96 are not read of typed columns yet"}
		}
	}
	return nil
}
