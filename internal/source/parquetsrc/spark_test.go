package parquetsrc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/plan"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
)

// sparkOut is the output folder of Spark's streaming file sink, as it writes one.
type sparkOut struct {
	t    *testing.T
	mem  *memblob.Store
	base string // what absolute paths begin with
}

// file writes a data file and returns its line of the log.
func (o sparkOut) file(key string, data []byte) string {
	o.t.Helper()
	info := sourcetest.Put(o.t, o.mem, key, data)
	return o.line(key, info.Size, "add")
}

func (o sparkOut) line(key string, size int64, action string) string {
	u := url.URL{Path: key}
	b, err := json.Marshal(map[string]any{
		"path": o.base + u.EscapedPath(), "size": size, "isDir": false, "modificationTime": 1700000000000, "blockReplication": 1, "blockSize": 33554432, "action": action,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return string(b)
}

func (o sparkOut) batch(name string, lines ...string) {
	o.t.Helper()
	sourcetest.Put(o.t, o.mem, "_spark_metadata/"+name, []byte(strings.Join(append([]string{"v1"}, lines...), "\n")))
}

// part names a data file as a task of a batch does.
func part(folder string, task int) string {
	return fmt.Sprintf("%spart-%05d-6e3f1b7a-9c55-4a0e-8f0e-%012d-c000.snappy.parquet", folder, task, task)
}

func newSparkOut(t *testing.T, base string) sparkOut {
	t.Helper()
	return sparkOut{t, memblob.New(), base}
}

func sparkSource() spec.Source {
	return sourceOf(spec.Spark)
}

func TestOnlyWhatSparkCommittedIsRead(t *testing.T) {
	// Written elsewhere than it lies now, in folders with a space; another attempt's file and one of a batch that failed lie beside.
	o := newSparkOut(t, "s3a://old-bucket/warehouse/orders/")
	rows := func(p int32, first, next int64) []byte {
		return export(t, sourcetest.Events(p, dense(first, next)), nil)
	}
	a := o.file(part("day=2024-11-03 x/", 0), rows(0, 0, 20))
	b := o.file(part("day=2024-11-03 x/", 1), rows(1, 0, 10))
	c := o.file(part("day=2024-11-04 x/", 2), rows(0, 20, 30))
	d := o.file(part("day=2024-11-05 x/", 3), rows(0, 30, 40))
	gone := o.line(part("", 4), 999, "add")
	o.file(part("day=2024-11-05 x/", 9), rows(0, 25, 60)) // uncommitted
	o.batch("0", a)
	o.batch("1.compact", a, b, gone) // as of spark.sql.streaming.fileSink.log.compactInterval=2
	o.batch("2", c, o.line(part("", 4), 999, "delete"))
	o.batch("3", d)
	sourcetest.Put(t, o.mem, "_spark_metadata/.3.crc", []byte("crc"))
	listing, p, err := planned(t, o.mem, sparkSource())
	if err != nil {
		t.Fatal(err)
	}
	if listing.Passed["files that _spark_metadata does not commit"] != 1 || len(listing.Segments) != 4 {
		t.Errorf("%+v", listing)
	}
	sameRows(t, rowsOf(t, o.mem, sparkSource(), p), log(40, 10))
}

func TestSparkLogsThatDoNotFitAreRefused(t *testing.T) {
	for says, change := range map[string]func(o sparkOut, key string){
		"which is not there: the history is incomplete":             func(o sparkOut, key string) { remove(o, key) },
		"it was written over, or not copied whole":                  func(o sparkOut, key string) { sourcetest.Put(o.t, o.mem, key, []byte("PAR1PAR1")) },
		"_spark_metadata/1 is missing, though there are later":      func(o sparkOut, _ string) { remove(o, "_spark_metadata/1") },
		"_spark_metadata/0 is missing, though there are later":      func(o sparkOut, _ string) { remove(o, "_spark_metadata/0") },
		`_spark_metadata/1 begins with "v2", expected v1`:           func(o sparkOut, _ string) { sourcetest.Put(o.t, o.mem, "_spark_metadata/1", []byte("v2\n{}")) },
		"_spark_metadata/1, entry 1: unexpected EOF: it is damaged": func(o sparkOut, _ string) { sourcetest.Put(o.t, o.mem, "_spark_metadata/1", []byte("v1\n{\"path\":")) },
		`it has the action "move"`:                                  func(o sparkOut, key string) { o.batch("2", o.line(key, 1, "move")) },
		"this is no output of Spark's streaming file sink":          func(o sparkOut, _ string) { remove(o, "_spark_metadata/0", "_spark_metadata/1", "_spark_metadata/2") },
	} {
		o := newSparkOut(t, "file:///data/out/")
		key := part("", 1)
		o.batch("0", o.file(part("", 0), export(t, sourcetest.Events(0, dense(0, 10)), nil)))
		o.batch("1", o.file(key, export(t, sourcetest.Events(0, dense(10, 20)), nil)))
		o.batch("2")
		if _, _, err := planned(t, o.mem, sparkSource()); err != nil {
			t.Fatal(err)
		}
		change(o, key)
		if _, _, err := planned(t, o.mem, sparkSource()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want %q", err, says)
		}
	}
}

func remove(o sparkOut, keys ...string) {
	for _, k := range keys {
		if err := o.mem.Delete(context.Background(), k); err != nil {
			o.t.Fatal(err)
		}
	}
}

// A query that kept no offsets leaves an archive like any other folder: at-least-once, of what was committed.
func TestSparkWithoutOffsetsIsAtLeastOnce(t *testing.T) {
	o := newSparkOut(t, "hdfs://nn:8020/out/")
	data := func(first, next int64) []byte {
		return export(t, sourcetest.Events(0, dense(first, next)), nil, offsetColumn, partitionColumn, timeColumn)
	}
	o.batch("0", o.file(part("", 0), data(0, 10)))
	o.file(part("", 7), data(0, 10))
	listing, p, err := planned(t, o.mem, sparkSource())
	if err != nil || !listing.AtLeastOnce {
		t.Fatalf("%+v, %v", listing, err)
	}
	sameRows(t, rowsOf(t, o.mem, sparkSource(), p), log(10))
	if _, _, err := planned(t, o.mem, sparkSource(), plan.Tail{End: 9}); err == nil || !strings.Contains(err.Error(), "have the query keep partition, offset and timestamp") {
		t.Error(err)
	}
}
