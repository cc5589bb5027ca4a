package job

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"hindcast/internal/record"
)

func TestShapeNamesFieldAndTagOfEveryMistake(t *testing.T) {
	type event struct {
		Country string `event:"country"`
		Again   string `event:"country"`
		Untold  int64
		Small   uint8 `event:"small"`
		hidden  int64 `event:"hidden"`
		Date    int64 `event:"day,date"`
		Extra   int64 `event:"extra,fast"`
		None    int64 `event:""`
		Skip    int64 `event:"-"`
	}
	type nested struct{ At *time.Time }
	type row struct {
		Lines    int64    `row:"lines"`
		Country  string   `row:"country,key"`
		Rate     float64  `row:"rate,key"`
		Account  *string  `row:"account_id,key"`
		Any      any      `row:"-"`
		Nested   nested   `row:"-"`
		Private  struct{} `row:"-,key"`
		Untagged int64
		time.Time
	}
	_ = event{}.hidden
	_, err := Fold[event, row]{}.Shape()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"field event.Again: tag `event:\"country\"`: column country is field event.Country already",
		"field event.Untold: no event tag",
		"field event.Small: tag `event:\"small\"`: type uint8 cannot be a column: use string,",
		"field event.hidden: tag `event:\"hidden\"`: the field is not exported",
		"field event.Date: tag `event:\"day,date\"`: option date needs a time.Time, not int64",
		"field event.Extra: tag `event:\"extra,fast\"`: unknown option \"fast\": there is date",
		"field event.None: tag `event:\"\"`: names no column",
		"field event.Skip: tag `event:\"-\"`: an event has columns only",
		"field row.Country: tag `row:\"country,key\"`: key columns come first: move it before field row.Lines",
		"field row.Rate: tag `row:\"rate,key\"`: a float cannot be a key",
		"field row.Account: tag `row:\"account_id,key\"`: a key column holds no null: use string",
		"field row.Any: tag `row:\"-\"`: private state must be plain data, so that it can be checkpointed: interface {} is a interface",
		"field row.Nested: tag `row:\"-\"`: private state must be plain data, so that it can be checkpointed: *time.Time is a ptr",
		"field row.Private: tag `row:\"-,key\"`: private state takes no options",
		"field row.Untagged: no row tag",
		"field row.Time: an embedded struct is not supported",
		"fold has no Apply",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in\n%v", want, err)
		}
	}
}

func TestPrivateStateIsPlain(t *testing.T) {
	type tree struct{ Kids []tree }
	bad := map[string]any{
		"*int64 is a ptr": struct {
			P *int64 `row:"-"`
		}{},
		"contains itself": struct {
			T tree `row:"-"`
		}{},
		"has float keys": struct {
			M map[float64]int `row:"-"`
		}{},
		"has struct keys": struct {
			M map[struct{ A int }]int `row:"-"`
		}{},
		"field hidden of struct": struct {
			S struct{ hidden int } `row:"-"`
		}{},
		"is a func": struct {
			F func() `row:"-"`
		}{},
		"is a chan": struct {
			C map[string]chan int `row:"-"`
		}{},
	}
	for want, state := range bad { // a fold of each would be compiled for long
		if _, err := rowTypeOf(reflect.TypeOf(state), rowTags); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	type plain struct {
		N    int64                        `row:"n"`
		Days map[string]map[int32][]int64 `row:"-"`
		At   [3]time.Time                 `row:"-"`
		Sub  struct{ A, B []string }      `row:"-"`
		Set  Set[string]                  `row:"-"`
	}
	if _, err := (Fold[empty, plain]{Apply: func(*plain, *empty) {}}).Shape(); err != nil {
		t.Error(err)
	}
}

type empty struct{}

func TestShape(t *testing.T) {
	type money int64
	type event struct {
		S string     `event:"s"`
		B []byte     `event:"b"`
		T bool       `event:"t"`
		I int        `event:"i"`
		M *money     `event:"m"`
		J int32      `event:"j"`
		F *float64   `event:"f"`
		A time.Time  `event:"a"`
		D *time.Time `event:"d,date"`
	}
	type row struct {
		Day time.Time `row:"at_day,date,key"`
		K   int32     `row:"k,key"`
		V   *string   `row:"v"`
	}
	m := Map[event, row]{Each: func(*event, func(row)) {}}
	got, err := m.Shape()
	if err != nil {
		t.Fatal(err)
	}
	wantEvents := record.Schema{
		{Name: "s", Kind: record.String},
		{Name: "b", Kind: record.String},
		{Name: "t", Kind: record.Bool},
		{Name: "i", Kind: record.Int64},
		{Name: "m", Kind: record.Int64, Nullable: true},
		{Name: "j", Kind: record.Int64},
		{Name: "f", Kind: record.Float64, Nullable: true},
		{Name: "a", Kind: record.Timestamp},
		{Name: "d", Kind: record.Date, Nullable: true},
	}
	wantRows := record.Schema{
		{Name: "at_day", Kind: record.Date},
		{Name: "k", Kind: record.Int64},
		{Name: "v", Kind: record.String, Nullable: true},
	}
	if !got.Events.Equal(wantEvents) || !got.Rows.Equal(wantRows) || got.Keys != 2 || got.OneRowPerKey {
		t.Errorf("got %+v", got)
	}
}
