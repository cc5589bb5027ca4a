// The program runs state machines in kumo, against answers that are given. It reads a list of requests as JSON, and writes a list of what they came to.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/sivchari/kumo/internal/service/sfn"
)

type request struct {
	Definition json.RawMessage   `json:"definition"`
	Input      json.RawMessage   `json:"input"`
	Objects    map[string]string `json:"objects"` // by bucket/key
	// Answers of functions to payloads, by "FUNCTION PAYLOAD"; a function that is given a token, which the payload is told without, answers by it.
	Answers map[string][]answer `json:"answers"`
}

type answer struct {
	Payload any    `json:"payload"`
	Error   string `json:"error"`
}

type response struct {
	Status string          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
	Calls  []string        `json:"calls"`
}

func main() {
	var requests []request
	err := json.NewDecoder(os.Stdin).Decode(&requests)
	var responses []response
	for _, r := range requests {
		if err != nil {
			break
		}
		var out response
		out, err = run(&r)
		responses = append(responses, out)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(responses)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(r *request) (response, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	w := &world{request: r, met: map[string]int{}}
	server := httptest.NewServer(w.routes())
	defer server.Close()
	w.engine = sfn.NewMemoryStorage(sfn.WithBaseURL(server.URL))
	m, err := w.engine.CreateStateMachine(ctx, &sfn.CreateStateMachineRequest{Name: "m", Definition: string(r.Definition), RoleArn: "arn:aws:iam::000000000000:role/r"})
	if err != nil {
		return response{}, err
	}
	x, err := w.engine.StartExecution(ctx, m.StateMachineArn, "x", string(r.Input), "")
	for err == nil && x.Status == "RUNNING" {
		time.Sleep(5 * time.Millisecond)
		if err = ctx.Err(); err == nil {
			x, err = w.engine.DescribeExecution(ctx, x.ExecutionArn)
		}
	}
	if err != nil {
		return response{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return response{string(x.Status), json.RawMessage(x.Output), x.Error, x.Cause, w.calls}, nil
}

// world is the functions and the bucket.
type world struct {
	*request
	engine *sfn.MemoryStorage

	mu    sync.Mutex
	met   map[string]int
	calls []string
}

func (w *world) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{bucket}/{key...}", func(out http.ResponseWriter, r *http.Request) {
		body, ok := w.Objects[r.PathValue("bucket")+"/"+r.PathValue("key")]
		if !ok {
			http.Error(out, "NoSuchKey", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(out, body)
	})
	mux.HandleFunc("PUT /{bucket}/{key...}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /2015-03-31/functions/{name}/invocations", w.invoke)
	return mux
}

func (w *world) invoke(out http.ResponseWriter, r *http.Request) {
	var payload map[string]any
	if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	token, asked := payload["token"].(string)
	delete(payload, "token")
	text, err := json.Marshal(payload)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	call := r.PathValue("name") + " " + string(text)
	w.mu.Lock()
	n := w.met[call]
	w.met[call]++
	w.calls = append(w.calls, call)
	w.mu.Unlock()
	list := w.Answers[call]
	if len(list) == 0 {
		http.Error(out, "no answer for "+call, http.StatusNotFound)
		return
	}
	a := list[min(n, len(list)-1)]
	if a.Error != "" {
		http.Error(out, a.Error, http.StatusInternalServerError)
		return
	}
	body, err := json.Marshal(a.Payload)
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	if asked {
		if err := w.engine.SendTaskSuccess(r.Context(), token, string(body)); err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		body = []byte("{}")
	}
	_, _ = out.Write(body)
}
