package parquetsrc_test

import (
	"strings"
	"testing"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/sourcetest"
)

// What an archived segment's footer says was copied into it is the segment's range, with rows at its ends or without; what is not its own is refused.
func TestArchivedSegmentsVouchForTheirRange(t *testing.T) {
	for _, c := range []struct {
		name    string
		named   int64
		offsets plan.Ranges
		noted   map[string]string
		want    string // the segment, or the error
	}{
		{"dense", 10, plan.Ranges{{First: 10, Next: 20}}, map[string]string{parquetsrc.RangeKey: "10-20"}, "10-20, rows at [], whole"},
		{"holes", 10, plan.Ranges{{First: 10, Next: 12}, {First: 15, Next: 20}}, map[string]string{parquetsrc.RangeKey: "7-23"}, "7-23, rows at [10-12 15-20], whole"},
		{"dense within", 10, plan.Ranges{{First: 10, Next: 20}}, map[string]string{parquetsrc.RangeKey: "7-20"}, "7-20, rows at [10-20], whole"},
		{"no row", 10, nil, map[string]string{parquetsrc.RangeKey: "10-20"}, "10-20, rows at [], whole"},
		{"not archived", 10, plan.Ranges{{First: 10, Next: 12}, {First: 15, Next: 20}}, nil, "10-20, rows at [10-12 15-20]"},
		{"too little", 10, plan.Ranges{{First: 10, Next: 20}}, map[string]string{parquetsrc.RangeKey: "10-19"}, "of the offsets 10-19, but it holds, or is named by, 10-20"},
		{"named otherwise", 20, nil, map[string]string{parquetsrc.RangeKey: "10-20"}, "of the offsets 10-20"},
		{"no range", 10, plan.Ranges{{First: 10, Next: 20}}, map[string]string{parquetsrc.RangeKey: "all"}, `"all" is not a range`},
		{"of another topic", 10, plan.Ranges{{First: 10, Next: 20}}, map[string]string{parquetsrc.RangeKey: "10-20", parquetsrc.TopicKey: "other"}, "of the topic other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := memblob.New()
			if c.noted != nil && c.noted[parquetsrc.TopicKey] == "" {
				c.noted[parquetsrc.TopicKey], c.noted[parquetsrc.TopicIDKey] = sourcetest.Topic, "id"
			}
			put(t, mem, 1, c.named, c.offsets, parquetfile.WriterOptions{KeyValue: c.noted})
			listing, err := parquetsrc.List(t.Context(), mem, src())
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				s := listing.Segments[0]
				var rows []string
				for _, r := range s.Offsets {
					rows = append(rows, r.String())
				}
				got = plan.Range{First: s.First, Next: s.Next}.String() + ", rows at [" + strings.Join(rows, " ") + "]"
				if s.Whole {
					got += ", whole"
				}
				if s.Whole != (s.TopicID == "id") {
					t.Errorf("the topic's id is %q", s.TopicID)
				}
			}
			if !strings.Contains(got, c.want) || err == nil && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
