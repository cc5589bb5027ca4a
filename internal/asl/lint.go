package asl

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hindcast/internal/asl/expr"
)

// Finding is something that Step Functions accepts, that works in small and here, and goes wrong there.
type Finding struct {
	Rule string // one of the Lint constants
	Path string // as /States/Plan/Retry
	Text string // what happens, and what to write instead
}

// The rules of [Machine.Lint].
const (
	LintPayload  = "payload-growth"   // a state's output grows with the data, up to the 256 KiB at which the execution fails uncaught
	LintRedrive  = "forfeits-redrive" // what failed is not run again by a redrive
	LintTimeout  = "missing-timeout"  // a task that never answers is waited for, by default for three years
	LintRetry    = "missing-retry"    // Lambda's own transient errors fail the state
	LintResource = "resource-form"    // what the state names is not what AWS takes, or not in the way that it is meant
	LintLabel    = "missing-label"    // permissions cannot name the Map Run
)

// Lint returns what is valid and nevertheless goes wrong on AWS, in order of paths and rules. Each rule cites the developer
// guide (dg) where it is looked up.
func (m *Machine) Lint() []Finding {
	l := &linter{machine: m}
	l.scope(m.top, false)
	slices.SortFunc(l.findings, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule)) })
	return l.findings
}

type linter struct {
	machine  *Machine
	findings []Finding
}

func (l *linter) add(c *common, member, rule, format string, args ...any) {
	path := l.machine.paths[c.name]
	if member != "" {
		path += "/" + member
	}
	l.findings = append(l.findings, Finding{rule, path, fmt.Sprintf(format, args...)})
}

// scope lints the states of a scope; child: they run in child executions of a Map Run.
func (l *linter) scope(sc *scope, child bool) {
	for _, st := range sc.states {
		switch st := st.(type) {
		case *taskState:
			l.task(st)
			l.catches(sc, &st.common, &st.policy, child)
		case *passState:
			l.nesting(sc, &st.common, st.parameters, !st.hasResult, st.resultPath)
		case *parallelState:
			l.gathered(&st.common, st.selector, st.resultPath, "branch")
			l.catches(sc, &st.common, &st.policy, child)
		case *mapState:
			l.mapState(sc, st)
			l.catches(sc, &st.common, &st.policy, child)
		}
		m, ok := st.(*mapState)
		for _, s := range st.scopes() {
			l.scope(s, child || ok && m.distributed)
		}
	}
}

// transient are the errors of Lambda itself (dg/bp-lambda-serviceexception).
var transient = []string{"Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.TooManyRequestsException"}

var functionName = regexp.MustCompile(`^(arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:|(\d{12}:)?function:)?[A-Za-z0-9_-]{1,140}(:(\$LATEST|[A-Za-z0-9_-]+))?$`)

func (l *linter) task(st *taskState) {
	if !st.timeout.given() {
		l.add(&st.common, "", LintTimeout, "TimeoutSeconds is missing: a task that does not answer is waited for until the execution ends")
	}
	for _, name := range transient {
		if !slices.ContainsFunc(st.retry, func(r retrier) bool { return r.attempts > 0 && matches(r.errors, &Error{Name: name}, true) }) {
			l.add(&st.common, "Retry", LintRetry, "%s, which passes by itself, is not retried", name)
			break
		}
	}
	token := false
	st.parameters.Paths(func(p *expr.Path) { token = token || strings.HasPrefix(p.String(), "$$.Task.Token") })
	name, static := st.parameters.Static("FunctionName")
	switch text, _ := name.(string); {
	case !st.service && st.parameters != nil && st.parameters.Has("FunctionName"):
		l.add(&st.common, "Parameters", LintResource, "the Resource is a function: it would receive FunctionName as part of its input; use %s", lambdaInvoke)
	case !st.service:
		l.add(&st.common, "Resource", LintResource, "a function's ARN has an account and a Region in it; use %s with FunctionName", lambdaInvoke)
	case static && !functionName.MatchString(text):
		l.add(&st.common, "Parameters/FunctionName", LintResource, "%q is neither a function's name nor its ARN", text)
	case st.callback && !token:
		l.add(&st.common, "Parameters", LintResource, "$$.Task.Token is not passed on: nobody can answer the task")
	case !st.callback && token:
		l.add(&st.common, "Resource", LintResource, "$$.Task.Token is passed on, and the state does not wait for it: use %s%s", lambdaInvoke, waitForToken)
	}
	if st.service && !st.callback && st.selector == nil && !st.resultPath.discard && wholeOutput(&st.common) {
		l.add(&st.common, "", LintPayload, "the function's whole answer, with the service's metadata, becomes part of the output: select what is needed by ResultSelector")
	}
}

// wholeOutput reports whether OutputPath takes nothing away.
func wholeOutput(c *common) bool {
	return c.output == nil || c.output.path != nil && c.output.path.String() == "$"
}

func (l *linter) mapState(sc *scope, st *mapState) {
	if !st.distributed {
		l.gathered(&st.common, st.result, st.resultPath, "iteration")
		return
	}
	// dg/input-output-resultwriter: without it the results are the state's output, even if ResultPath drops them.
	if st.writer == nil || st.writer.parameters == nil {
		l.add(&st.common, "ResultWriter", LintPayload, "the results of all child executions become one output: write them to S3 by ResultWriter")
	}
	// dg/redrive-map-run: a Map Run is redriven only if its state was not left. A Map that can be come to again may tolerate in one round what it
	// does not in the last, if its input says so.
	for _, t := range []amount{st.toleratedCount, st.toleratedPercent} {
		if t.value > 0 || t.path != nil && !revisited(sc, st.name) {
			l.add(&st.common, t.name, LintRedrive, "failures that are tolerated end the state as a success: a redrive does not run them again; "+
				"come to it again for what failed, by a path to no tolerance")
		}
	}
	if !st.labelled {
		l.add(&st.common, "Label", LintLabel, "without it AWS makes one up: permissions to redrive or describe the child executions name it (dg/iam-policies-eg-dist-map)")
	}
	for _, t := range []struct {
		member     string
		parameters *expr.Template
	}{{"ItemReader", st.reader.template()}, {"ResultWriter", st.writer.template()}} {
		if v, _ := t.parameters.Static("Bucket"); v != nil && strings.ContainsAny(fmt.Sprint(v), ":/") {
			l.add(&st.common, t.member+"/Parameters/Bucket", LintResource, "%v is no bucket's name: it has neither : nor /", v)
		}
	}
}

func (r *itemReader) template() *expr.Template {
	if r == nil {
		return nil
	}
	return r.parameters
}

func (w *resultWriter) template() *expr.Template {
	if w == nil {
		return nil
	}
	return w.parameters
}

// gathered looks at the results of several lines of control.
func (l *linter) gathered(c *common, selector *expr.Template, at resultPath, what string) {
	if selector == nil && !at.discard {
		l.add(c, "", LintPayload, "the output of every %s becomes part of this one: select what is needed by ResultSelector, or drop it by ResultPath null", what)
	}
}

// catches looks for errors that are caught and so not redriven. dg/redrive-executions: a state that was left is not run
// again, and a Fail state fails again.
func (l *linter) catches(sc *scope, c *common, p *policy, child bool) {
	for i, t := range p.catch {
		member := fmt.Sprintf("Catch/%d", i)
		_, fails := sc.states[t.next].(*failState)
		m, isMap := sc.states[c.name].(*mapState)
		switch {
		case isMap && m.distributed:
			l.add(c, member, LintRedrive, "a Map Run whose failure is caught is not redriven: let the state fail")
		case child:
			l.add(c, member, LintRedrive, "a child execution that catches an error is not run again at the state that failed: let it fail")
		case fails:
			l.add(c, member, LintRedrive, "it leads to a Fail state, at which a redrive fails again: let the state fail")
		}
	}
}

// nesting looks for a state in a loop that puts its input into its output: each lap adds a level.
func (l *linter) nesting(sc *scope, c *common, parameters *expr.Template, hasInput bool, at resultPath) {
	if !hasInput || at.discard || !revisited(sc, c.name) {
		return
	}
	nests := false
	if parameters == nil {
		nests = at.at != nil && at.at.String() != "$"
	}
	parameters.Paths(func(p *expr.Path) { nests = nests || p.String() == "$" })
	if nests {
		l.add(c, "", LintPayload, "it puts its whole input into its output, and leads back to itself: the output grows with every lap")
	}
}

// revisited reports whether a state can be come to again.
func revisited(sc *scope, name string) bool {
	seen := map[string]bool{}
	var reaches func(from string) bool
	reaches = func(from string) bool {
		st := sc.states[from]
		if st == nil || seen[from] {
			return false
		}
		seen[from] = true
		return slices.ContainsFunc(st.targets(), func(t target) bool { return t.name == name || reaches(t.name) })
	}
	return reaches(name)
}
