// Package job is what authors of jobs write against: a folder with a job.yaml and Go code that turns events into rows.
//
// A job names a transform for each of its outputs. A [Fold] makes one row of all events of a key, a [Map] makes
// rows of each event alone. Both are written over plain structs, whose tags name columns. A [ColumnFold] is a fold for whom that is not fast enough.
//
//	type Line struct {                            // what is read: these columns and no others
//		Country  string    `event:"country"`
//		Quantity int64     `event:"quantity"`
//		Invoice  string    `event:"invoice_no"`
//		At       time.Time `event:"occurred_at"`
//		Account  *string   `event:"account_id"` // a pointer: may be null
//	}
//
//	type Revenue struct {                         // a row, and the state while it is computed
//		Country  string          `row:"country,key"` // key columns come first
//		Units    int64           `row:"units"`
//		Invoices int64           `row:"invoices"`
//		Seen     job.Set[string] `row:"-"`           // private state: plain data, in exported fields
//	}
//
// A fold adds the events of a key up; Finish, which may be left out, makes the row's last columns of the state:
//
//	job.Fold[Line, Revenue]{
//		Where:  func(l *Line) bool { return l.Quantity != 0 },              // optional: others are filtered
//		Key:    func(l *Line) Revenue { return Revenue{Country: l.Country} },
//		Apply:  func(r *Revenue, l *Line) { r.Units += l.Quantity; r.Seen.Add(l.Invoice) },
//		Finish: func(r *Revenue) { r.Invoices = r.Seen.Len() },
//	}
//
// A partition with very many events is computed in parts, beside each other, where the fold says how two are merged, the later one into the one before:
//
//	Merge: func(r, later *Revenue) { r.Units += later.Units; r.Seen.AddAll(later.Seen) },
//
// A map makes any number of rows of an event:
//
//	job.Map[Line, Entry]{
//		Each: func(l *Line, emit func(Entry)) { emit(Entry{ID: l.ID, Amount: l.Quantity * l.Price}) },
//	}
//
// Columns that a row takes over as they are need not be read into the event: [Same] passes them through, which is faster.
//
//	type Entry struct {
//		ID     job.Same[string]     `row:"event_id,key"`            // the events' column event_id
//		At     job.Same[job.Micros] `row:"booked_at,from=occurred_at"`
//		Amount int64                `row:"amount_mills"`
//	}
//
// It is fastest where rows have no key columns and the job does not dedupe (dedupe: false in job.yaml), so that rows stay as the log has them. Then columns that Where and
// Each do not read are not even decoded: of segments that Hindcast wrote, pages whose rows all stay are copied into the table's files, compressed. Of retail's invoice lines,
// this reads two columns of those of a line, and passes all of them on:
//
//	type Sold struct {
//		Quantity int64 `event:"quantity"`
//		Price    int64 `event:"unit_price_mills"`
//	}
//
//	type Priced struct {
//		Invoice  job.Same[string]     `row:"invoice_no"`
//		At       job.Same[job.Micros] `row:"occurred_at"`
//		Account  job.Same[string]     `row:"account_id,null"`
//		Quantity job.Same[int64]      `row:"quantity"`
//		Price    job.Same[int64]      `row:"unit_price_mills"`
//		Amount   int64                `row:"amount_mills"`
//	}
//
//	job.Map[Sold, Priced]{Each: func(s *Sold, emit func(Priced)) { emit(Priced{Amount: s.Quantity * s.Price}) }}
//
// # By column
//
// Where most of a run's time goes into its fold, the same fold can be written over columns. It runs several times as fast, and its rows are the same:
//
//	type Lines struct {                           // what is read, by column
//		Country  job.Text               `event:"country"`
//		Quantity job.Column[int64]      `event:"quantity"`
//		Kind     job.Text               `event:"kind"`
//		At       job.Column[job.Micros] `event:"occurred_at"`
//		Account  job.Text               `event:"account_id,null"` // may be null: ask Null before At
//	}
//
//	type Revenues struct {                        // rows and state: a value for each group
//		Country job.Key `row:"country"`           // the key: the events' column of that name
//		Units   []int64 `row:"units"`
//		Lines   []int64 `row:"lines"`
//	}
//
//	job.ColumnFold[Lines, Revenues]{
//		Apply: func(r *Revenues, l *Lines, events []job.Event) {
//			sold := job.Of(&l.Kind, func(kind string) bool { return kind == "sale" }) // asked once for each kind
//			for _, e := range events {                                                // in the order of the log
//				if r.Lines[e.Group]++; sold.At(e.Row) {
//					r.Units[e.Group] += l.Quantity.At(e.Row)
//				}
//			}
//		},
//	}
//
// Its Merge is given groups of the later part, as rows, and those that they go into:
//
//	Merge: func(r, later *Revenues, events []job.Event) {
//		for _, e := range events {
//			r.Units[e.Group] += later.Units[e.Row]
//			r.Lines[e.Group] += later.Lines[e.Row]
//		}
//	},
//
// Groups are found, and their values made, by the engine: dictionaries are never spelled out, and Apply is called once for thousands of events. Where and
// Version are as in a [Fold]. What differs is a panic in Apply: a [Fold] loses one event to the dead letters, a ColumnFold voids the run, and names the offsets that it was at.
// jobs/daily-country-revenue has its fold in both forms; the one by column, columns_test.go, is held against the other.
//
// # Types
//
// Integers wrap around as Go's do: choose units in which a sum fits 64 bits.
//
// Fields are string, []byte, bool, int, int32, int64, float64, time.Time (a timestamp, or a date with the option "date": `event:"day,date"`),
// [Micros] (a timestamp) and [Days] (a date) for less than a time.Time costs, or types made from these. A pointer to one is a column that may be null; a null in any other field makes the event a dead letter, never a zero.
// An event is valid during the call that it is passed to; its strings and what its pointers point to may be kept.
//
// The package refuses, when a job is listed, what could not be run the same way twice or checkpointed. The engine that feeds
// transforms is in package transform: dedupe, order, windows and partitions are not the author's business.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Job is a job's folder: its files and the transform of each output.
type Job struct {
	folder  string
	files   []fs.FS
	outputs Outputs
}

// Outputs gives the transform of each table that a job writes.
type Outputs map[string]Transform

// New makes a job of the files of its folder, usually embedded with
//
//	//go:embed job.yaml canaries.csv *.go
//	var files embed.FS
//
// It is called from a file in that folder: the folder's name appears in messages.
func New(files fs.FS, outputs Outputs) Job {
	folder := "."
	if _, file, _, ok := runtime.Caller(1); ok {
		folder = path.Base(path.Dir(filepath.ToSlash(file)))
	}
	return Job{folder: folder, files: []fs.FS{files}, outputs: maps.Clone(outputs)}
}

// With returns the job with the files of another folder whose code its transforms use, so that a change there changes [Job.Digest], too.
func (j Job) With(files fs.FS) Job {
	j.files = append(slices.Clip(j.files), files)
	return j
}

// Folder is the name of the folder that holds the job.
func (j Job) Folder() string { return j.folder }

// Files are the job's own files: job.yaml and what it names.
func (j Job) Files() fs.FS { return j.files[0] }

// Outputs returns the tables and their transforms.
func (j Job) Outputs() Outputs { return maps.Clone(j.outputs) }

// Code returns the job's Go files but for tests: what [Job.Digest] covers. Names begin with the number of the folder, 0 for the job's own.
func (j Job) Code() (map[string][]byte, error) {
	out := map[string][]byte{}
	for i, files := range j.files {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			out[fmt.Sprintf("%d/%s", i, name)], err = fs.ReadFile(files, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read code of job %s: %w", j.folder, err)
		}
	}
	return out, nil
}

// Digest identifies the job's code: "sha256:" and hex digits. A run goes on only with the code that it began with.
func (j Job) Digest() (string, error) {
	code, err := j.Code()
	if err != nil {
		return "", err
	}
	if len(code) == 0 {
		return "", fmt.Errorf("digest of job %s: no Go file among its files: add *.go to its go:embed line", j.folder)
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(code)) {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(code[name]))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
