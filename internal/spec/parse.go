package spec

import (
	"regexp"
	"slices"
	"strings"

	"hindcast/internal/partition"
	"hindcast/internal/unit"
)

// DefaultAhead is how far clocks may differ where a job does not say.
const DefaultAhead = Hour

// maxDuration bounds lateness and ahead, so that no instant overflows.
const maxDuration = 36525 * Day

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
	topicForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	envForm   = regexp.MustCompile(`\$(\w+|\{\w+\})`)
)

const maxName = 64

// Parse reads a job.yaml. File is what errors call it. The error joins every mistake
// that was found, each an [*Error] with its line.
func Parse(file string, b []byte) (*Spec, error) {
	root, err := parseYAML(file, b)
	if err != nil {
		return nil, err
	}
	d := &decoder{file: file}
	o := d.object(root, "", jobKeys())
	s := &Spec{
		Job:     d.name(o.get("job"), "job"),
		Why:     o.str("why", ""),
		Source:  d.source(o.child("source")),
		Dataset: d.dataset(o.get("dataset")),
		Checks:  d.checks(o.child("checks")),
		Promote: Promote(o.str("promote", string(Ask))),
	}
	if v := o.get("outputs"); v != nil {
		s.Outputs = d.outputs(v.list, s.Source.Event.Time)
	}
	event := o.child("source").child("event")
	if event != nil && !event.has("lateness") && slices.ContainsFunc(s.Outputs, Output.ByTime) && !s.WholeLog() {
		d.fail(event.line, event.path, "the key lateness is missing: a table cut by time needs to know how much later than it happened an event may enter the log, as 21d; "+
			"segments that contradict it are named by the plan")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// name reads a name that is used in paths.
func (d *decoder) name(v *value, what string) string {
	if v == nil {
		return ""
	}
	if !nameForm.MatchString(v.text) || len(v.text) > maxName {
		d.fail(v.line, v.path, "found %q, expected the name of a %s: at most %d lower-case letters, digits, and single hyphens, dots and underscores between them",
			v.text, what, maxName)
	}
	return v.text
}

func (d *decoder) source(o *object) Source {
	var s Source
	if v := o.get("topic"); v != nil {
		s.Topic = v.text
		if !topicForm.MatchString(v.text) || v.text == "." || v.text == ".." {
			d.fail(v.line, v.path, "found %q, expected a topic's name: at most 249 letters, digits, dots, hyphens and underscores", v.text)
		}
	}
	seg := o.child("segments")
	cols := seg.child("columns")
	names := Naming(seg.str("naming", string(KafkaConnect))).columns()
	s.Segments = Segments{
		Parquet: seg.str("parquet", ""),
		Naming:  Naming(seg.str("naming", string(KafkaConnect))),
		Columns: KafkaColumns{Partition: cols.str("partition", names.Partition), Offset: cols.str("offset", names.Offset), Time: cols.str("time", names.Time)},
		Sums:    seg.str("sums", ""),
	}
	if v := seg.get("parquet"); v != nil {
		d.scheme(v)
	}
	if seg != nil {
		s.Segments.Tiered = d.tiered(seg, o.child("tail"))
	}
	if c := s.Segments.Columns; c.Partition == c.Offset || c.Offset == c.Time || c.Time == c.Partition {
		d.fail(cols.line, cols.path, "partition, offset and time must be three columns, found %s, %s and %s", c.Partition, c.Offset, c.Time)
	}
	if tail := o.child("tail"); tail != nil {
		s.Tail = &Tail{Value: ValueFormat(tail.str("value", string(JSON)))}
		if v := tail.get("brokers"); v != nil {
			s.Tail.Brokers = d.brokers(v)
		}
		d.access(tail, s.Tail)
	}
	if event := o.child("event"); event != nil {
		s.Event = d.event(event)
	}
	d.payload(&s, seg, o.child("tail"))
	return s
}

// scheme refuses URLs of stores that there is no driver for.
func (d *decoder) scheme(v *value) {
	if scheme, _, ok := strings.Cut(v.text, "://"); ok && scheme != "s3" && scheme != "file" {
		d.fail(v.line, v.path, "found a %s:// URL, expected a path, or a file:// or s3:// URL", scheme)
	}
}

func (d *decoder) brokers(v *value) []string {
	var out []string
	for _, t := range v.texts {
		for addr := range strings.SplitSeq(t.text, ",") {
			if addr = strings.TrimSpace(addr); addr == "" {
				d.fail(t.line, t.path, "found %q: an address between commas is empty", t.text)
				continue
			}
			out = append(out, addr)
		}
	}
	if len(out) > 1 && slices.ContainsFunc(out, func(a string) bool { return strings.HasPrefix(a, Embedded) }) {
		d.fail(v.line, v.path, "an embedded broker stands alone: found %s", strings.Join(out, ", "))
	}
	return out
}

func (d *decoder) event(o *object) Event {
	e := Event{
		ID: o.str("id", ""), Time: o.str("time", ""), Ahead: DefaultAhead, Dedupe: true, Columns: d.columns(o), Upcasts: d.upcasts(o),
	}
	for name, to := range map[string]*Duration{"lateness": &e.Lateness, "ahead": &e.Ahead} {
		if v := o.get(name); v != nil {
			*to = Duration(v.num)
			if *to > maxDuration {
				d.fail(v.line, v.path, "%s is more than a hundred years", *to)
			}
		}
	}
	if v := o.get("dedupe"); v != nil {
		e.Dedupe = v.flag
	}
	switch {
	case !o.has("id") && e.Dedupe:
		d.fail(o.line, o.path, "the key id is missing: it names the column that identifies an event, so that a copy is counted once; or write dedupe: false")
	case e.ID != "" && e.ID == e.Time:
		v := o.get("id")
		d.fail(v.line, v.path, "the column %s cannot be both the event's id and its time", e.ID)
	}
	return e
}

func (d *decoder) outputs(list []*object, eventTime string) []Output {
	var out []Output
	lines := map[string]int{}
	for _, o := range list {
		v := o.get("table")
		table := d.name(v, "table")
		if v != nil {
			if first, ok := lines[table]; ok {
				d.fail(v.line, v.path, "the table %s is already an output, in line %d", table, first)
			}
			lines[table] = v.line
		}
		if p := o.child("partition"); p != nil {
			output := d.partition(p, eventTime)
			output.Table, output.FileSize = table, d.fileSize(o.get("file-size"))
			out = append(out, output)
		}
	}
	return out
}

// The sizes that files may be asked to have: smaller ones make a manifest of nothing but names, and a store takes no object larger than that.
const (
	minFileSize = unit.Bytes(1_000_000)
	maxFileSize = unit.Bytes(5_000_000_000_000)
)

func (d *decoder) fileSize(v *value) unit.Bytes {
	if v == nil {
		return 0
	}
	n := unit.Bytes(v.num)
	if n < minFileSize || n > maxFileSize {
		d.fail(v.line, v.path, "found %s, expected %s to %s: files are read one by one", n, minFileSize, maxFileSize)
	}
	return n
}

func (d *decoder) partition(o *object, eventTime string) Output {
	var by []string
	for _, name := range []string{"hour", "day", "month", "bucket"} {
		if o.has(name) {
			by = append(by, name)
		}
	}
	zone, n := o.get("zone"), o.get("count")
	if len(by) != 1 {
		found := "none of them"
		if len(by) > 1 {
			found = strings.Join(by, " and ")
		}
		d.fail(o.line, o.path, "a table is cut by one of hour, day, month and bucket; found %s", found)
		return Output{}
	}
	column := o.get(by[0])
	if column == nil {
		return Output{}
	}
	if by[0] == "bucket" {
		if zone != nil {
			d.fail(zone.line, zone.path, "a table cut by bucket has no zone")
		}
		if !o.has("count") {
			d.fail(o.line, o.path, "the key count is missing: the number of buckets, which never changes")
			return Output{}
		}
		if n == nil {
			return Output{}
		}
		if n.num < 1 || n.num > partition.MaxBuckets {
			d.fail(n.line, n.path, "found %d, expected 1 to %d buckets", n.num, partition.MaxBuckets)
		}
		return Output{Scheme: partition.Scheme{Buckets: int(min(max(n.num, 1), partition.MaxBuckets))}, BucketColumn: column.text}
	}
	if n != nil {
		d.fail(n.line, n.path, "only a table cut by bucket has a count")
	}
	if eventTime != "" && column.text != eventTime {
		d.fail(column.line, column.path, "found %q, expected the event's time, %s: cutting by another column is not built yet", column.text, eventTime)
	}
	s := partition.Scheme{Unit: partition.Unit(by[0]), Column: column.text}
	if !o.has("zone") {
		d.fail(o.line, o.path, "the key zone is missing: whose clocks decide when a %s begins, as Europe/London or UTC", by[0])
		return Output{Scheme: s}
	}
	if zone == nil {
		return Output{Scheme: s}
	}
	s.Zone = zone.text
	if _, err := partition.LoadZone(zone.text); err != nil {
		d.fail(zone.line, zone.path, "%v", err)
	}
	return Output{Scheme: s}
}

func (d *decoder) dataset(v *value) string {
	if v == nil {
		return ""
	}
	if strings.Contains(v.text, "://") {
		d.scheme(v)
		return v.text
	}
	if strings.ContainsAny(v.text, `/\`) {
		d.fail(v.line, v.path, "found %q, expected a bare name, or a file:///… or s3://… URL", v.text)
		return ""
	}
	return d.name(v, "dataset")
}

func (d *decoder) checks(o *object) Checks {
	c := Checks{Emptied: Emptied(o.str("emptied", string(RefuseEmptied)))}
	if rows := o.child("rows"); rows != nil {
		c.Rows = &RowsCheck{Against: Against(rows.str("against", ""))}
		if v := rows.get("within"); v != nil {
			c.Rows.Within = Percent(v.num)
		}
	}
	if v := o.get("canaries"); v != nil {
		for _, t := range v.texts {
			// The path is one of the files embedded with the job.
			if strings.HasPrefix(t.text, "/") || strings.Contains(t.text, `\`) || slices.Contains(strings.Split(t.text, "/"), "..") {
				d.fail(t.line, t.path, "found %q, expected a file in the job's folder", t.text)
			}
			c.Canaries = append(c.Canaries, t.text)
		}
	}
	if v := o.get("dead-letters"); v != nil {
		c.DeadLetters = v.num
	}
	return c
}

// Embedded begins the address of a broker that runs in process, for samples and tests; a file's path follows.
const Embedded = "embedded:"

// Addrs returns the brokers' addresses, with $NAME and ${NAME} replaced by what lookup (as os.LookupEnv) has for them.
func (t *Tail) Addrs(lookup func(string) (string, bool)) ([]string, error) {
	var out []string
	for _, b := range t.Brokers {
		b, err := expandEnv("source.tail.brokers", "the brokers' addresses", b, lookup)
		if err != nil {
			return nil, err
		}
		for addr := range strings.SplitSeq(b, ",") {
			if addr = strings.TrimSpace(addr); addr != "" {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}
