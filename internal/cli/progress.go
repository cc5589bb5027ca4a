package cli

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"hindcast/internal/local"
)

// progress shows how a run goes on: a bar on a terminal, a line a state elsewhere.
type progress struct {
	io    IO
	lines bool // tell the states where there is no terminal
	rows  atomic.Int64

	mu    sync.Mutex
	state string
	bars  *mpb.Progress
	bar   *mpb.Bar
}

func newProgress(std IO, lines bool) *progress {
	p := &progress{io: std, lines: lines}
	if std.Terminal {
		p.bars = mpb.New(mpb.WithOutput(std.Err), mpb.WithWidth(40))
	}
	return p
}

func (p *progress) update(u local.Update) {
	p.rows.Add(u.Rows)
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.State != "" && u.State != p.state {
		p.state = u.State
		p.finish()
		if p.bars == nil {
			if p.lines {
				fmt.Fprintf(p.io.Err, "state    %s\n", u.State)
			}
			return
		}
		p.bar = p.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name(u.State, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(
				decor.CountersNoUnit("%d/%d"),
				decor.Any(func(decor.Statistics) string { return fmt.Sprintf("  %d rows read", p.rows.Load()) }),
				decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6}),
			))
	}
	if u.Total > 0 && p.bar != nil {
		p.bar.SetTotal(int64(u.Total), false)
		p.bar.SetCurrent(int64(u.Done + u.Failed))
	}
}

// finish completes the bar of the state that was left.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.SetTotal(-1, true)
		p.bar = nil
	}
}

// done ends the display.
func (p *progress) done() {
	p.mu.Lock()
	p.finish()
	p.mu.Unlock()
	if p.bars != nil {
		p.bars.Wait()
	}
}
