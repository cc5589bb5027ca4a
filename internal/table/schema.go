package table

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"hindcast/internal/partition"
	"hindcast/internal/record"
)

// Schema is what a table is. It belongs to the table and does not change from version to version.
type Schema struct {
	// Rows are the columns that a transform writes, the key columns first. The
	// partition column is not among them.
	Rows record.Schema `json:"rows"`
	// Keys is how many of them are the key. Rows are sorted by it within a file.
	Keys   int              `json:"keys,omitempty"`
	Scheme partition.Scheme `json:"scheme"`
}

// Columns are the columns of the table's files: the partition column, where the scheme has one, then Rows.
func (s Schema) Columns() record.Schema {
	f, ok := s.Scheme.Field()
	if !ok {
		return s.Rows
	}
	return append(record.Schema{f}, s.Rows...)
}

// Equal reports whether both are the same.
func (s Schema) Equal(o Schema) bool {
	return s.Rows.Equal(o.Rows) && s.Keys == o.Keys && s.Scheme == o.Scheme
}

// Differs says in what the schema is another than that which is served; nil where they are the same.
func (s Schema) Differs(served Schema) error {
	keys := func(s Schema) []string {
		out := make([]string, s.Keys)
		for i := range out {
			out[i] = s.Rows[i].Name
		}
		return out
	}
	switch {
	case s.Scheme != served.Scheme:
		return fmt.Errorf("it is cut in %s, the job cuts it in %s", served.Scheme, s.Scheme)
	case !slices.Equal(keys(s), keys(served)):
		return fmt.Errorf("its key is %v, that of the job's rows %v", keys(served), keys(s))
	case !s.Rows.Equal(served.Rows):
		return fmt.Errorf("it has the columns %s, the job's rows have %s", columnsText(served.Rows), columnsText(s.Rows))
	}
	return nil
}

func columnsText(rows record.Schema) string {
	out := make([]string, len(rows))
	for i, f := range rows {
		out[i] = fmt.Sprintf("%s %s", f.Name, f.Kind)
		if f.Nullable {
			out[i] += "?"
		}
	}
	return strings.Join(out, ", ")
}

// Validate reports what a table cannot be.
func (s Schema) Validate() error {
	if err := s.Scheme.Validate(); err != nil {
		return err
	}
	if len(s.Rows) == 0 {
		return errors.New("the table has no columns")
	}
	if s.Keys < 0 || s.Keys > len(s.Rows) {
		return fmt.Errorf("%d key columns of %d", s.Keys, len(s.Rows))
	}
	seen := map[string]bool{}
	for i, f := range s.Columns() {
		switch {
		case f.Name == "":
			return fmt.Errorf("column %d has no name", i+1)
		case f.Kind < record.Bool || f.Kind > record.Date:
			return fmt.Errorf("column %s has the unknown kind %v", f.Name, f.Kind)
		case seen[f.Name]:
			return fmt.Errorf("two columns are called %s; the partition's column counts, too", f.Name)
		}
		seen[f.Name] = true
	}
	for _, f := range s.Rows[:s.Keys] {
		if f.Nullable {
			return fmt.Errorf("key column %s is nullable: a key must be known", f.Name)
		}
	}
	return nil
}

// Partition is the name of the partition with a label: "day=2011-11-01" for "2011-11-01".
func (s Schema) Partition(label string) string { return s.Scheme.Dir(label) }

// Label is the label in the name of a partition of the table. That the table's zone has
// such a day, month or hour is not looked into.
func (s Schema) Label(name string) (string, error) {
	_, label, _ := strings.Cut(name, "=")
	var err error
	switch s.Scheme.Unit {
	case partition.Hour:
		if _, err = time.Parse("2006-01-02T15-0700", label); err != nil {
			_, err = time.Parse("2006-01-02T15-070000", label) // zones had offsets with seconds, once
		}
	case partition.Day:
		_, err = time.Parse(time.DateOnly, label)
	case partition.Month:
		_, err = time.Parse("2006-01", label)
	default:
		_, err = s.Scheme.ParseBucket(label)
	}
	if err != nil || s.Scheme.Dir(label) != name {
		return "", fmt.Errorf("%q does not name a partition of a table cut by %s", name, s.Scheme)
	}
	return label, nil
}

// checkName asks for the name of a partition that the table's zone has.
func (s Schema) checkName(name string) error {
	label, err := s.Label(name)
	if err != nil {
		return err
	}
	return s.checkLabel(label)
}

func (s Schema) checkLabel(label string) error {
	if s.Scheme.ByTime() {
		_, err := s.Scheme.Parse(label)
		return err
	}
	_, err := s.Scheme.ParseBucket(label)
	return err
}

// Compare orders names of partitions as readers see them: by time, or by bucket.
func (s Schema) Compare(a, b string) int {
	_, x, _ := strings.Cut(a, "=")
	_, y, _ := strings.Cut(b, "=")
	return s.Scheme.Compare(x, y)
}

// names is what tables, runs and live commits may be called: it is safe in any store's keys.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName reports what keeps name from being that of a table, a run or a live commit; what says which.
func CheckName(what, name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%q cannot name a %s: use 1 to 128 letters, digits, dots, dashes and underscores, a letter or digit first", name, what)
	}
	return nil
}

// Path is where a run (or live commit) puts one file of a partition, below the
// dataset. Part numbers the files of the partition.
func Path(run, table, partition string, part int) string {
	return fmt.Sprintf("data/%s/%s/%s/part-%04d.parquet", run, table, partition, part)
}

// BucketPath is where a run puts the nth file of what a topic partition gives of a bucket.
func BucketPath(run, table, partition string, topicPartition int32, n int) string {
	path := Path(run, table, partition, int(topicPartition))
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s-%04d.parquet", strings.TrimSuffix(path, ".parquet"), n)
}
