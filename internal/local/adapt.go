package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"

	"hindcast/internal/asl"
	"hindcast/internal/blob"
	"hindcast/internal/step"
)

// objects shows the workspace to the interpreter as the one bucket there is.
type objects struct{ store blob.Store }

func (o objects) Get(ctx context.Context, _, key string) (io.ReadCloser, error) {
	obj, err := o.store.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.Body, nil
}

func (o objects) List(ctx context.Context, _, prefix string) iter.Seq2[asl.Object, error] {
	return func(yield func(asl.Object, error) bool) {
		for info, err := range blob.All(ctx, o.store, prefix) {
			if !yield(asl.Object{Key: info.Key, ETag: string(info.ETag), Size: info.Size, LastModified: info.Modified}, err) {
				return
			}
		}
	}
}

func (o objects) Put(ctx context.Context, _, key string, body []byte) error {
	_, err := blob.PutBytes(ctx, o.store, key, body, blob.Condition{})
	return err
}

// failures remembers the errors that calls of states ended with: the interpreter keeps their names and texts, a caller wants their classes.
type failures struct {
	mu    sync.Mutex
	calls []failedCall // in the order in which they first failed; none that succeeded when it was tried again
}

type failedCall struct {
	call string
	err  error
}

// cause is what ended the execution: the first failure that no further attempt was made after, if there is one.
func (f *failures) cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if named, ok := errors.AsType[*step.Error](c.err); !ok || named.Name != step.Transient {
			return c.err
		}
	}
	if len(f.calls) == 0 {
		return nil
	}
	return f.calls[0].err
}

// note keeps the outcome of a call's last attempt.
func (f *failures) note(call string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.calls, func(c failedCall) bool { return c.call == call })
	switch {
	case at < 0 && err != nil:
		f.calls = append(f.calls, failedCall{call, err})
	case at >= 0 && err != nil:
		f.calls[at].err = err
	case at >= 0:
		f.calls = slices.Delete(f.calls, at, at+1)
	}
}

// runner runs the states in this process, as a Lambda function would be called.
func (f *failures) runner(env *step.Env) asl.TaskRunner {
	return asl.TaskFunc(func(ctx context.Context, req asl.TaskRequest) (json.RawMessage, error) {
		out, err := env.Run(ctx, step.State(req.Function), req.Payload)
		if ctx.Err() != nil {
			return out, err // what a call that was stopped ends with is no failure of its own, as where a sibling failed
		}
		var named *step.Error
		if !errors.As(err, &named) {
			if err == nil {
				f.note(req.Function+" "+string(req.Payload), nil)
			}
			return out, err
		}
		f.note(req.Function+" "+string(req.Payload), err)
		return nil, asl.FunctionError(named.Name, named.Error())
	})
}

func observer(watch func(Update)) func(asl.Event) {
	if watch == nil {
		return nil
	}
	return func(e asl.Event) {
		switch {
		case e.Type == asl.NoteProgress && e.Child == "" && e.Counts != nil: // the first tells of a state that is gone on with
			watch(Update{State: e.State, Total: e.Counts.Total, Done: e.Counts.Succeeded, Failed: e.Counts.Failed})
		case e.Child == "" && (e.Type == "TaskStateEntered" || e.Type == "MapStateEntered"):
			watch(Update{State: e.State})
		}
	}
}

// hookedHistories calls fn before and after every durable write.
type hookedHistories struct {
	asl.Histories
	fn func(done bool) error
}

func (h hookedHistories) Open(ctx context.Context, name asl.HistoryName) (asl.History, error) {
	inner, err := h.Histories.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return hookedHistory{inner, h.fn}, nil
}

type hookedHistory struct {
	asl.History
	fn func(done bool) error
}

func (h hookedHistory) Append(ctx context.Context, events []asl.Event) error {
	if err := h.fn(false); err != nil {
		return err
	}
	if err := h.History.Append(ctx, events); err != nil {
		return err
	}
	return h.fn(true)
}
