package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"hindcast/internal/local"
)

// progress shows how a run goes on: a bar a state on a terminal, a line a state elsewhere.
type progress struct {
	io   IO
	keep bool // what was shown stays

	mu    sync.Mutex
	state string
	bars  *mpb.Progress
	bar   *mpb.Bar
	total int64 // of bar
	rows  *atomic.Int64
}

func newProgress(std IO, keep bool) *progress {
	p := &progress{io: std, keep: keep, rows: new(atomic.Int64)}
	if std.Terminal {
		p.bars = mpb.New(mpb.WithOutput(std.Err), mpb.WithWidth(40))
	}
	return p
}

func (p *progress) update(u local.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.State != "" && u.State != p.state {
		p.enter(u.State)
	}
	if u.Asked != "" {
		fmt.Fprintf(p.above(), "asked    %s\n", u.Asked)
	}
	p.rows.Add(u.Rows)
	if u.Total > 0 && p.bar != nil {
		p.total = int64(u.Total)
		p.bar.SetTotal(p.total, false)
		p.bar.SetCurrent(int64(u.Done + u.Failed))
	}
}

func (p *progress) enter(state string) {
	p.state = state
	p.finish()
	if p.bars == nil {
		if p.keep {
			fmt.Fprintf(p.io.Err, "state    %s\n", state)
		}
		return
	}
	rows := new(atomic.Int64)
	p.rows, p.total = rows, 1
	var options []mpb.BarOption
	if !p.keep {
		options = append(options, mpb.BarRemoveOnComplete())
	}
	p.bar = p.bars.AddBar(0, append(options,
		mpb.PrependDecorators(decor.Name(state, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(
			decor.Any(func(s decor.Statistics) string {
				if s.Total <= 0 {
					return "..."
				}
				return fmt.Sprintf("%d/%d", s.Current, s.Total)
			}, decor.WCSyncSpace),
			decor.Elapsed(decor.ET_STYLE_GO, decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string {
				if n := rows.Load(); n > 0 {
					return fmt.Sprintf("  %d rows read", n)
				}
				return ""
			}),
		))...)
}

// waiting tells what is waited for, above the bars.
func (p *progress) waiting(what string) { p.tell("waiting  " + what + "\n") }

// tell writes text above the bars.
func (p *progress) tell(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.above(), text)
}

// above is where talk goes: above the bars, where there are some.
func (p *progress) above() io.Writer {
	if p.bars == nil {
		return p.io.Err
	}
	return p.bars
}

// finish completes the bar of the state that was left.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.SetTotal(p.total, false)
		p.bar.SetCurrent(p.total)
		p.bar.SetTotal(-1, true) // complete at what is there
		p.bar = nil
	}
}

// done ends the display. A state that failed keeps the bar that it has.
func (p *progress) done(failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && failed {
		p.bar.Abort(false)
		p.bar = nil
	}
	p.finish()
	if p.bars != nil {
		p.bars.Wait()
	}
}
