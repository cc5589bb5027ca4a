package cli

import (
	"path/filepath"
	"testing"
	"time"

	"hindcast/internal/job"
)

// A job whose table is served with another cut, key or columns is refused before anything is read, and says what differs.
func TestOtherTablesAreRefusedByThePlan(t *testing.T) {
	l := newSmallLog(t)
	l.segment(visits(t, 0, time.Hour, 10)...)
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})}, "run", "visits", "--promote", "--workspace", ws,
		"--from", "2024-05-01", "--to", "2024-05-02").ok(t)
	same := l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})
	type row struct {
		ID   string `row:"id,key"`
		Shop string `row:"shop"`
	}
	wider := job.Map[Visit, row]{Each: func(*Visit, func(row)) {}}
	for _, c := range []struct {
		job  job.Job
		says string
	}{
		{l.job(smallJob{Tables: map[string]string{"events": "day Europe/London"}}), "it is cut in day of at in UTC, the job cuts it in day of at in Europe/London"},
		{l.job(smallJob{Tables: map[string]string{"events": "month UTC"}}), "it is cut in day of at in UTC, the job cuts it in month of at in UTC"},
		{changedJob(t, same, nil, job.Outputs{"events": adding()}), "its key is [id], that of the job's rows [shop]"},
		{changedJob(t, same, nil, job.Outputs{"events": wider}), "it has the columns id string, at timestamp, shop string, amount int64, the job's rows have id string, shop string"},
	} {
		for _, verb := range []string{"plan", "run"} {
			r := hindcastWith(t, []job.Job{c.job}, verb, "visits", "--workspace", ws, "--from", "2024-05-01", "--to", "2024-06-01").exits(t, 3)
			contains(t, verb, r.err, "table events of dataset visits, version 1: "+c.says, "write to a table of another name")
		}
	}
	hindcastWith(t, []job.Job{same}, "plan", "visits", "--workspace", ws, "--from", "2024-05-01", "--to", "2024-05-02").ok(t)
}
