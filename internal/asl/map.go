package asl

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"hindcast/internal/asl/expr"
)

// mapState is a Map state: inline, its iterations are strands of the execution; distributed,
// they are child executions of a Map Run (see mapRun).
type mapState struct {
	common
	policy
	processor   *scope
	distributed bool
	itemsPath   *expr.Path
	selector    *expr.Template // ItemSelector
	concurrency amount
	result      *expr.Template // ResultSelector
	resultPath  resultPath

	// Of a distributed one.
	label            string
	labelled         bool // by the definition
	reader           *itemReader
	batcher          *itemBatcher
	writer           *resultWriter
	toleratedCount   amount
	toleratedPercent amount
}

const (
	inlineConcurrency      = 40     // of Step Functions
	distributedConcurrency = 10_000 // of Step Functions
)

var labelForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

func loadMap(c common, f *fields) state {
	st := &mapState{common: c}
	st.loadProcessor(f)
	st.itemsPath = f.pathOf("ItemsPath")
	st.selector = f.template("ItemSelector")
	if f.has("Parameters") { // the old name
		if st.selector != nil {
			f.problem("Parameters", "is the old name of ItemSelector, which is there as well")
		}
		st.selector = f.template("Parameters")
	}
	st.concurrency = f.whole("MaxConcurrency", 0, maxSeconds)
	st.result = f.template("ResultSelector")
	st.resultPath = f.resultPath()
	st.policy = loadPolicy(f)
	if !st.distributed {
		for _, name := range []string{
			"ItemReader", "ItemBatcher", "ResultWriter", "Label", "ToleratedFailureCount",
			"ToleratedFailureCountPath", "ToleratedFailurePercentage", "ToleratedFailurePercentagePath",
		} {
			if _, ok := f.get(name); ok {
				f.problem(name, "needs ItemProcessor.ProcessorConfig.Mode DISTRIBUTED")
			}
		}
		return st
	}
	if label, ok := f.text("Label"); ok {
		st.label, st.labelled = label, true
		if !labelForm.MatchString(label) {
			f.problem("Label", "has 1 to 40 letters, digits, _ and -")
		}
	} else {
		st.label = regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(c.name, "")
		st.label = st.label[:min(len(st.label), 40)]
		if st.label == "" {
			st.label = "Map"
		}
	}
	st.reader = loadItemReader(f)
	st.batcher = loadItemBatcher(f)
	st.writer = loadResultWriter(f)
	st.toleratedCount = f.whole("ToleratedFailureCount", 0, 100_000_000)
	st.toleratedPercent = amount{name: "ToleratedFailurePercentage"}
	if v, ok := f.float("ToleratedFailurePercentage", 0, 100); ok {
		st.toleratedPercent.value, st.toleratedPercent.set = v, true
	}
	f.byPath(&st.toleratedPercent)
	return st
}

func (st *mapState) loadProcessor(f *fields) {
	name := "ItemProcessor"
	if f.has("Iterator") { // the old name
		if f.has(name) {
			f.problem("Iterator", "is the old name of ItemProcessor, which is there as well")
		}
		name = "Iterator"
	}
	p, ok := f.object(name)
	if !ok {
		if !f.has(name) {
			f.problem(name, "is missing")
		}
		return
	}
	if config, ok := p.object("ProcessorConfig"); ok {
		mode, _ := config.oneOf("Mode", "INLINE", "DISTRIBUTED")
		st.distributed = mode == "DISTRIBUTED"
		kind, given := config.text("ExecutionType")
		switch {
		case st.distributed && !given:
			config.problem("ExecutionType", "is missing: STANDARD is supported")
		case st.distributed && kind != "STANDARD":
			config.problem("ExecutionType", "%q is not supported: only STANDARD is", kind)
		case !st.distributed && given:
			config.problem("ExecutionType", "needs Mode DISTRIBUTED")
		}
		config.done()
	}
	st.processor = f.loader.scope(p)
	p.done()
}

func (st *mapState) scopes() []*scope {
	if st.processor == nil {
		return nil
	}
	return []*scope{st.processor}
}

func (st *mapState) targets() []target { return st.policy.targets(&st.common) }

func (st *mapState) run(ctx context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	limit, err := st.limit(f, input)
	if err != nil {
		return exit{}, err
	}
	var items []any
	if st.reader == nil {
		if items, err = st.items(f, input); err != nil {
			return exit{}, err
		}
	}
	var follows int64
	result, err := f.attempts(ctx, &st.policy, MapStateFailed, func(attempt int) (any, bool, error) {
		n := len(items)
		began, err := f.emit(Event{Type: MapStateStarted, State: f.state.name, Length: &n})
		if err != nil {
			return nil, false, err
		}
		if failure := f.failedBefore(MapStateFailed); failure != nil {
			return nil, true, failure
		}
		var result any
		inside := true
		if st.distributed {
			result, inside, err = st.runDistributed(ctx, f, began, attempt, input, items, limit)
		} else {
			result, err = st.runInline(ctx, f, began, attempt, input, items, limit)
		}
		if err != nil {
			return nil, inside, err
		}
		follows = f.prev // so AWS has it: the exit does not follow MapStateSucceeded
		_, err = f.emit(Event{Type: MapStateSucceeded, State: f.state.name})
		return result, false, err
	})
	if err == nil {
		var e exit
		if e, err = f.combine(result, st.result, st.resultPath); err == nil {
			e.follows = follows
			return e, nil
		}
	}
	return f.recover(&st.policy, false, err)
}

// limit is how many iterations run at once.
func (st *mapState) limit(f *frame, input any) (int, error) {
	limit := inlineConcurrency
	if st.distributed {
		limit = distributedConcurrency
	}
	n, _, err := f.whole(&st.concurrency, input)
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, f.runtime("MaxConcurrency cannot be negative.")
	}
	return effective(n, limit, f.x.engine.MaxParallel), nil
}

// effective is the least of the limits that are set.
func effective(n int64, limit, parallel int) int {
	if n > 0 {
		limit = int(min(n, int64(limit)))
	}
	if parallel > 0 {
		limit = min(limit, parallel)
	}
	return limit
}

// items finds the array of a Map without ItemReader.
func (st *mapState) items(f *frame, input any) ([]any, error) {
	at := "$"
	if st.itemsPath != nil {
		at = st.itemsPath.String()
		var err error
		if input, err = f.eval(st.itemsPath, "ItemsPath", input); err != nil {
			return nil, err
		}
	}
	list, ok := input.([]any)
	if !ok {
		return nil, f.runtime("Reference path \"%s\" must point to array.", at)
	}
	return list, nil
}

// entry is the context object's Map of an iteration.
func entry(i int, item any) map[string]any {
	return map[string]any{"Item": map[string]any{"Index": expr.Number(int64(i)), "Value": item}}
}

// selected applies ItemSelector to an item.
func (st *mapState) selected(f *frame, input any, i int, item any) (any, error) {
	if st.selector == nil {
		return item, nil
	}
	inner := *f.strand
	inner.item = entry(i, item)
	view := *f
	view.strand = &inner
	return view.fill(st.selector, input)
}

func (st *mapState) runInline(
	ctx context.Context, f *frame, began Event, attempt int, input any, items []any, limit int,
) (any, error) {
	inputs := make([]json.RawMessage, len(items))
	for i, item := range items {
		v, err := st.selected(f, input, i, item)
		if err != nil {
			return nil, err
		}
		if inputs[i], err = expr.Encode(v); err != nil {
			return nil, err
		}
	}
	g := group{
		frame: f, began: began.ID, attempt: attempt, n: len(items), limit: limit,
		started: MapIterationStarted, succeeded: MapIterationSucceeded, failed: MapIterationFailed, aborted: MapIterationAborted,
	}
	outputs, err := g.run(ctx, func(ctx context.Context, s *strand, i int) (json.RawMessage, error) {
		s.item = entry(i, items[i])
		return s.run(ctx, st.processor, inputs[i])
	})
	if err != nil {
		return nil, err
	}
	return outputs, nil
}

// itemBatcher is an ItemBatcher: it gathers items into the input of one child execution.
type itemBatcher struct {
	items amount // MaxItemsPerBatch
	bytes amount // MaxInputBytesPerBatch
	input *expr.Template
}

func loadItemBatcher(f *fields) *itemBatcher {
	b, ok := f.object("ItemBatcher")
	if !ok {
		return nil
	}
	out := &itemBatcher{
		items: b.whole("MaxItemsPerBatch", 1, 100_000_000), bytes: b.whole("MaxInputBytesPerBatch", 1, MaxPayload),
		input: b.template("BatchInput"),
	}
	if !out.items.given() && !out.bytes.given() {
		b.problem("", "needs MaxItemsPerBatch or MaxInputBytesPerBatch")
	}
	b.done()
	return out
}

// batches are the limits of an ItemBatcher as evaluated.
type batches struct {
	items, bytes int
	input        json.RawMessage
}

// evaluate evaluates the limits and BatchInput.
func (b *itemBatcher) evaluate(f *frame, input any) (*batches, error) {
	if b == nil {
		return nil, nil // no batches
	}
	out := &batches{items: 100_000_000, bytes: MaxPayload}
	for _, t := range []struct {
		amount *amount
		to     *int
	}{{&b.items, &out.items}, {&b.bytes, &out.bytes}} {
		n, ok, err := f.whole(t.amount, input)
		switch {
		case err != nil:
			return nil, err
		case ok && n < 1:
			return nil, f.runtime("%s must be positive.", t.amount.name)
		case ok:
			*t.to = int(min(n, int64(*t.to)))
		}
	}
	if b.input != nil {
		v, err := f.fill(b.input, input)
		if err != nil {
			return nil, err
		}
		if out.input, err = expr.Encode(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gather turns the inputs of items into those of batches, and tells how many items each has.
func (b *batches) gather(items []json.RawMessage) (inputs []json.RawMessage, sizes []int) {
	head := `{"Items":[`
	if b.input != nil {
		head = fmt.Sprintf(`{"BatchInput":%s,"Items":[`, b.input)
	}
	var batch []byte
	count := 0
	flush := func() {
		if count > 0 {
			inputs = append(inputs, append(batch, "]}"...))
			sizes = append(sizes, count)
		}
		batch, count = nil, 0
	}
	for _, item := range items {
		if count == b.items || count > 0 && len(batch)+1+len(item)+2 > b.bytes {
			flush()
		}
		if count == 0 {
			batch = append(batch, head...)
		} else {
			batch = append(batch, ',')
		}
		batch = append(batch, item...)
		count++
	}
	flush()
	return inputs, sizes
}
