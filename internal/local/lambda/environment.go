package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"hindcast/internal/unit"
)

// environment is one process, and the server that it asks for work.
type environment struct {
	f      *Function
	cmd    *exec.Cmd
	server *http.Server

	waiting chan struct{}   // the process asks for its next invocation
	next    chan invocation // what it is given
	answers chan answer     // what it gives back
	exited  chan struct{}
	exit    error // how it ended, once exited is closed

	warm   bool // it has come to ask for work before
	frozen bool
	broken bool // it must not be used again

	mu      sync.Mutex
	current string // the invocation that may be answered
}

type invocation struct {
	id       string
	deadline time.Time
	payload  json.RawMessage
}

type answer struct {
	payload json.RawMessage
	err     *Error
}

const (
	sampling = 10 * time.Millisecond // of an environment's memory
	// settling is how long a process may go on between its answer and its next question.
	settling = 5 * time.Second
	api      = "/2018-06-01/runtime/"
)

func start(f *Function) (*environment, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	e := &environment{
		f: f, waiting: make(chan struct{}, 1), next: make(chan invocation), answers: make(chan answer, 1), exited: make(chan struct{}),
	}
	e.server = &http.Server{Handler: e.routes(), ReadHeaderTimeout: settling}
	e.cmd = exec.Command(f.Bootstrap) //nolint:noctx // it outlives the invocation that starts it
	e.cmd.Env = append(os.Environ(), f.Env...)
	e.cmd.Env = append(
		e.cmd.Env,
		"AWS_LAMBDA_RUNTIME_API="+l.Addr().String(),
		"AWS_LAMBDA_FUNCTION_NAME="+f.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE="+strconv.FormatInt(int64(f.Memory>>20), 10),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"_HANDLER=bootstrap",
	)
	e.cmd.Stdout, e.cmd.Stderr = f.Log, f.Log
	e.cmd.WaitDelay = time.Second // for what it has started and left behind
	apart(e.cmd)
	if err := e.cmd.Start(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() {
		e.exit = e.cmd.Wait()
		close(e.exited)
	}()
	go e.server.Serve(l) //nolint:errcheck // it ends when the environment does
	return e, nil
}

// close kills the process and waits for its end.
func (e *environment) close() error {
	e.kill()
	<-e.exited
	return e.server.Close()
}

func (e *environment) kill() { _ = e.cmd.Process.Kill() } // it has ended otherwise

// invoke runs one invocation. Afterwards the environment is frozen, or broken.
func (e *environment) invoke(ctx context.Context, in invocation) (json.RawMessage, error) {
	began := time.Now()
	e.broken = true // until it has been seen to wait again
	if e.frozen {
		if err := thaw(e.cmd.Process); err != nil {
			return nil, e.ended(in.id)
		}
		e.frozen = false
	}
	if !e.warm {
		if out, err := e.initialize(ctx, in.id); out != nil || err != nil {
			return out, err
		}
		e.warm = true
	}
	in.deadline = time.Now().Add(e.f.Timeout)
	e.mu.Lock()
	e.current = in.id
	e.mu.Unlock()
	late := time.NewTimer(e.f.Timeout)
	defer late.Stop()
	memory := time.NewTicker(sampling)
	defer memory.Stop()
	next, most := e.next, unit.Bytes(0)
	for {
		select {
		case next <- in:
			next = nil
		case a := <-e.answers:
			most = max(most, resident(e.cmd.Process.Pid))
			e.report(in.id, time.Since(began), most)
			e.settle()
			if a.err != nil {
				return nil, a.err
			}
			return a.payload, nil
		case <-memory.C:
			most = max(most, resident(e.cmd.Process.Pid))
			if e.f.Memory > 0 && most > e.f.Memory {
				e.kill()
				<-e.exited
				e.report(in.id, time.Since(began), most)
				return nil, &Error{OutOfMemory, fmt.Sprintf("RequestId: %s Error: Runtime exited with error: signal: killed", in.id)}
			}
		case <-late.C:
			e.kill()
			e.report(in.id, time.Since(began), most)
			return nil, &Error{TimedOut, fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", in.id, e.f.Timeout.Seconds())}
		case <-e.exited:
			return nil, e.ended(in.id)
		case <-ctx.Done():
			e.kill()
			return nil, context.Cause(ctx)
		}
	}
}

// initialize waits for the process to ask for work the first time. An answer that comes before is how it says that it cannot begin.
func (e *environment) initialize(ctx context.Context, id string) (json.RawMessage, error) {
	late := time.NewTimer(initTime)
	defer late.Stop()
	select {
	case <-e.waiting:
		return nil, nil
	case a := <-e.answers:
		return nil, a.err
	case <-late.C:
		return nil, &Error{TimedOut, fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds, before it asked for an invocation", id, initTime.Seconds())}
	case <-e.exited:
		return nil, e.ended(id)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// settle freezes the process once it asks for work again.
func (e *environment) settle() {
	late := time.NewTimer(settling)
	defer late.Stop()
	select {
	case <-e.waiting:
		e.broken = freeze(e.cmd.Process) != nil
		e.frozen = !e.broken
	case <-e.exited:
	case <-late.C:
	}
}

// ended says how the process ended.
func (e *environment) ended(id string) *Error {
	<-e.exited
	how := "exit status 0"
	if e.exit != nil {
		how = e.exit.Error()
	}
	return &Error{Exited, fmt.Sprintf("RequestId: %s Error: Runtime exited with error: %s", id, how)}
}

func (e *environment) report(id string, took time.Duration, memory unit.Bytes) {
	fmt.Fprintf(e.f.Log, "REPORT RequestId: %s\tFunction: %s\tDuration: %.2f ms\tMemory Size: %d MB\tMax Memory Used: %d MB\n",
		id, e.f.Name, float64(took.Microseconds())/1e3, e.f.Memory>>20, memory>>20)
}

// routes serves the Runtime API.
func (e *environment) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api+"invocation/next", func(w http.ResponseWriter, r *http.Request) {
		select {
		case e.waiting <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		select {
		case in := <-e.next:
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h.Set("Lambda-Runtime-Aws-Request-Id", in.id)
			h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.deadline.UnixMilli(), 10))
			h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:"+e.f.Name)
			_, _ = w.Write(in.payload) // who does not take it does not answer
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST "+api+"invocation/{id}/{kind}", func(w http.ResponseWriter, r *http.Request) {
		var a answer
		body, err := io.ReadAll(io.LimitReader(r.Body, maxPayload+1))
		switch kind := r.PathValue("kind"); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case kind == "error":
			a.err = failure(body, r)
		case kind != "response":
			http.NotFound(w, r)
			return
		case len(body) > maxPayload:
			a.err = &Error{ResponseTooLarge, fmt.Sprintf("Response payload size exceeded maximum allowed payload size (%d bytes).", maxPayload)}
		case !json.Valid(body):
			a.err = &Error{"Runtime.InvalidResponse", "The response is not JSON."}
		default:
			a.payload = body
		}
		e.take(w, r.PathValue("id"), a)
	})
	mux.HandleFunc("POST "+api+"init/error", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxPayload))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.take(w, "", answer{err: failure(body, r)})
	})
	return mux
}

// take passes an answer on, if it is one to the invocation that goes on.
func (e *environment) take(w http.ResponseWriter, id string, a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id != e.current {
		http.Error(w, `{"errorType":"InvalidRequestID","errorMessage":"Invalid request ID"}`, http.StatusBadRequest)
		return
	}
	e.current = "answered" // no id looks like this
	e.answers <- a
	w.WriteHeader(http.StatusAccepted)
}

// failure reads what a function says of its error.
func failure(body []byte, r *http.Request) *Error {
	var e Error
	if json.Unmarshal(body, &e) != nil || e.Type == "" {
		e.Type = r.Header.Get("Lambda-Runtime-Function-Error-Type")
	}
	if e.Type == "" {
		e.Type = "Unhandled"
	}
	if e.Message == "" {
		e.Message = strings.ToValidUTF8(string(body), "\uFFFD")
	}
	return &e
}

// resident returns the memory that a process holds, 0 where that cannot be told.
func resident(pid int) unit.Bytes {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(b)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		return unit.Bytes(pages) * unit.Bytes(os.Getpagesize())
	}
	return 0
}
