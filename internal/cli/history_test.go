package cli

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
)

// A time partitioner files a record by a clock: in the hour that comes twice when clocks go back, in the neighbour's when it is late, under the day of
// a replay when it is old. Whatever the folders say, an hour has the events that happened in it.
func TestFoldersOfTimeAreNotBelieved(t *testing.T) {
	t.Parallel()
	recs := inOrder(0, 0,
		rec{ID: "first-0158", At: "2024-11-03T01:58:00-04:00"},
		rec{ID: "first-015958", At: "2024-11-03T01:59:58-04:00", Time: "2024-11-03T02:00:07-05:00"}, // seconds late by the wall clock, an hour and more by any other
		rec{ID: "second-0130", At: "2024-11-03T01:30:00-05:00"},
		rec{ID: "two", At: "2024-11-03T02:00:01-05:00"},
		rec{ID: "second-015959", At: "2024-11-03T01:59:59-05:00", Time: "2024-11-03T02:00:02-05:00"},
		rec{ID: "four", At: "2024-11-03T04:00:00-05:00"},
		rec{ID: "replayed", At: "2024-11-03T01:10:00-04:00", Time: "2024-12-05T09:01:00-05:00"},
		rec{ID: "today", At: "2024-12-05T08:58:00-05:00", Time: "2024-12-05T09:01:30-05:00"},
	)
	whole, l := newSmallLog(t), newSmallLog(t)
	whole.segment(recs...)
	for folder, of := range map[string][]rec{
		"day=03/hour=01": {recs[0], recs[2]}, // both one-o'clock hours
		"day=03/hour=02": {recs[1], recs[3], recs[4]},
		"day=03/hour=04": {recs[5]},
		"day=05/hour=09": {recs[6], recs[7]}, // of arrival
	} {
		file := strings.ReplaceAll(filepath.Base(l.segmentFile(0, of[0].Offset)), "zstd", "snappy")
		l.put(filepath.Join(l.dir, "topics", smallTopic, "year=2024", "month=11", folder, file), l.encode(parquetfile.WriterOptions{}, time.Microsecond, of))
	}
	window := []string{"--from", "2024-11-03T01:00:00-04:00", "--to", "2024-11-03T02:00:00-05:00", "--promote"}
	wholeWs, ws := filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "ws")
	small := smallJob{Lateness: "40d", Tables: map[string]string{"events": "hour America/New_York"}}
	hindcastWith(t, []job.Job{whole.job(small)}, with([]string{"run", "visits", "--workspace", wholeWs}, window...)...).ok(t)
	list := []job.Job{l.job(small)}
	hindcastWith(t, list, with([]string{"run", "visits", "--workspace", ws}, window...)...).ok(t)
	if got := ids(t, list, ws); got != "first-0158 first-015958 replayed second-0130 second-015959" {
		t.Errorf("the two hours have %s", got)
	}
	if want, got := parts(t, wholeWs), parts(t, ws); len(want) != 2 || !maps.EqualFunc(want, got, bytes.Equal) {
		t.Errorf("%d files, %d of one segment without folders of time, differ", len(got), len(want))
	}
}

// sent are records on a cluster.
func sent(t *testing.T, c *kfake.Cluster, recs ...rec) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: smallTopic, Partition: r.Partition, Value: []byte(value(t, r)), Timestamp: r.recordTime(t)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// onBrokers is a topic of some partitions, and a job that reads it.
func onBrokers(t *testing.T, partitions int32) (*kfake.Cluster, *smallLog, job.Job) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.CreateTopic(smallTopic, partitions, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	l := newSmallLog(t)
	l.put(l.tailFile(), nil)
	l.hasTail = true
	j := l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})
	return c, l, changedJob(t, j, map[string]string{"embedded:" + l.tailFile(): c.ListenAddrs()[0]}, nil)
}

// No record of a partition may be as new as the window, or there may be none at all: what brokers would answer when asked for an offset by such a
// time (none, which is not the end) decides nothing. Each partition is read to its own end, and an empty one is no error.
func TestPartitionsWithoutARecordOfTheWindow(t *testing.T) {
	t.Parallel()
	c, _, j := onBrokers(t, 3)
	sent(t, c, inOrder(0, 0, rec{ID: "old-1", At: "2024-04-01T10:00:00Z"}, rec{ID: "old-2", At: "2024-04-02T10:00:00Z"})...)
	sent(t, c, inOrder(1, 0,
		rec{ID: "before", At: "2024-04-30T10:00:00Z"}, rec{ID: "in-1", At: "2024-05-01T10:00:00Z"}, rec{ID: "after", At: "2024-05-09T10:00:00Z"},
		rec{ID: "in-2", At: "2024-05-01T11:00:00Z", Time: "2024-05-01T11:00:01Z"})...) // times run backwards
	list, ws := []job.Job{j}, filepath.Join(t.TempDir(), "ws")
	for _, w := range []struct{ from, to, want string }{{"2024-05-01", "2024-05-02", "in-1 in-2"}, {"2024-06-01", "2024-06-02", "in-1 in-2"}} { // a day after all
		s := hindcastWith(t, list, "run", "visits", "--from", w.from, "--to", w.to, "--promote", "--json", "--workspace", ws).ok(t).status(t)
		if got := ids(t, list, ws); got != w.want {
			t.Errorf("%s: the table has %s, want %s", w.from, got, w.want)
		}
		offsets := map[int32]int64{}
		for _, a := range s.Account {
			offsets[a.Partition] += a.Offsets
		}
		if offsets[0] != 2 || offsets[1] != 4 || offsets[2] != 0 {
			t.Errorf("%s: accounted for are %v", w.from, offsets)
		}
	}
	plan := hindcastWith(t, list, "plan", "visits", "--from", "2024-05-01", "--to", "2024-05-02", "--workspace", ws).ok(t).out
	for _, line := range []string{"0 0-2 0 0 0-2", "1 0-4 0 0 0-4", "2 - 0 0 -", "costs 4 requests and 0 B to find out; about 2 requests to read"} {
		if !slices.ContainsFunc(strings.Split(plan, "\n"), func(s string) bool { return strings.Join(strings.Fields(s), " ") == line }) {
			t.Errorf("the plan has no line %q:\n%s", line, plan)
		}
	}
}

// A topic of two partitions, both exported, gets two more within the window: these are read from their beginning, and the plan says that keys may have moved.
func TestPartitionsAddedWithinTheWindowAreRead(t *testing.T) {
	t.Parallel()
	c, l, j := onBrokers(t, 2)
	var all []rec
	for p := range int32(2) {
		recs := visits(t, p, 6*time.Hour, 12) // three days
		l.segment(recs[:9]...)
		all = append(all, recs...)
	}
	sent(t, c, all...)
	add := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = smallTopic, 4
	add.Topics = append(add.Topics, rt)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := add.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	for p := int32(2); p < 4; p++ {
		recs := visits(t, p, 6*time.Hour, 12)[7:] // from the evening of the second day on
		sent(t, c, recs...)
		all = append(all, recs...)
	}
	list, ws := []job.Job{j}, filepath.Join(t.TempDir(), "ws")
	r := hindcastWith(t, list, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--promote", "--workspace", ws).ok(t)
	contains(t, "the run", r.out+r.err, "partitions seem to have been added in the read range: partition 2 begins at 2024-05-02T18:00:01Z; partition 3 begins at 2024-05-02T18:00:01Z")
	var want []string
	for _, e := range all {
		want = append(want, e.ID)
	}
	got := strings.Fields(ids(t, list, ws))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the table has %v\nwant %v", got, want)
	}
}
