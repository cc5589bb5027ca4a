package infra_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"hindcast/infra"
	"hindcast/internal/asl"
	"hindcast/internal/step"
	"hindcast/internal/testenv"
)

// Each Task state has a function, which the template names, and a step that it runs.
func TestEveryTaskStateHasItsFunction(t *testing.T) {
	root := testenv.Root(t)
	var called []string
	for _, m := range regexp.MustCompile(`\$\{([A-Za-z]+)Function\}`).FindAllStringSubmatch(string(infra.Backfill), -1) {
		called = append(called, m[1])
	}
	slices.Sort(called)
	called = slices.Compact(called) // one function waits for approvals of all kinds
	var states []string
	for _, s := range step.States() {
		states = append(states, string(s))
	}
	slices.Sort(states)
	if !slices.Equal(called, states) {
		t.Errorf("the definition calls the functions %q, the states are %q", called, states)
	}

	raw, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string `yaml:"Type"`
			Properties struct {
				Code       string         `yaml:"CodeUri"`
				Definition string         `yaml:"DefinitionUri"`
				Names      map[string]any `yaml:"DefinitionSubstitutions"`
			} `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(raw, &template); err != nil {
		t.Fatal(err)
	}
	machine := template.Resources["Backfill"]
	if machine.Type != "AWS::Serverless::StateMachine" || machine.Properties.Definition != "infra/backfill.asl.json" {
		t.Errorf("the template's state machine is %+v", machine)
	}
	for _, s := range states {
		folder := "functions/" + strings.ToLower(s)
		if _, err := os.Stat(filepath.Join(root, folder, "main.go")); err != nil {
			t.Errorf("state %s: %v", s, err)
		}
		if f := template.Resources[s+"Function"]; f.Type != "AWS::Serverless::Function" || f.Properties.Code != folder {
			t.Errorf("state %s: the template has %+v", s, f)
		}
		if _, ok := machine.Properties.Names[s+"Function"]; !ok {
			t.Errorf("state %s: the template does not say what ${%sFunction} is", s, s)
		}
	}
	if n := len(template.Resources); n != len(states)+1 {
		t.Errorf("the template has %d resources, expected a function a state and the state machine", n)
	}
}

func parse(t *testing.T, definition []byte) *asl.Machine {
	t.Helper()
	names := map[string]string{}
	for _, s := range step.States() {
		names[string(s)+"Function"] = string(s)
	}
	m, err := asl.Parse(definition, names)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheDefinitionIsAccepted(t *testing.T) {
	for _, f := range parse(t, infra.Backfill).Lint() {
		t.Errorf("%s at %s: %s", f.Rule, f.Path, f.Text)
	}
	if !json.Valid(infra.Backfill) {
		t.Error("the definition is not JSON")
	}
}

// What would break on AWS only is found, and nothing beside it.
func TestBadVariantsAreFound(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		state  string // within Backfill, if it is one of a child execution
		change func(state object)
		rule   string
		path   string
	}{
		{"Backfill", func(s object) { delete(s, "ResultWriter") }, asl.LintPayload, "/States/Backfill/ResultWriter"},
		{"Backfill", func(s object) { s["ResultWriter"] = object{"WriterConfig": object{"Transformation": "COMPACT"}} }, asl.LintPayload, "/States/Backfill/ResultWriter"},
		{"Validate", func(s object) { delete(s, "ResultSelector") }, asl.LintPayload, "/States/Validate"},
		{"Work", func(s object) { delete(s, "OutputPath") }, asl.LintPayload, "/States/Backfill/ItemProcessor/States/Work"},
		{
			"Work", func(s object) { s["Catch"] = []any{object{"ErrorEquals": []any{"States.ALL"}, "Next": "ShardDone"}} },
			asl.LintRedrive, "/States/Backfill/ItemProcessor/States/Work/Catch/0",
		},
		{
			"Backfill", func(s object) { s["Catch"] = []any{object{"ErrorEquals": []any{"States.ALL"}, "Next": "Validate"}} },
			asl.LintRedrive, "/States/Backfill/Catch/0",
		},
		{
			"Validate", func(s object) { s["Catch"] = []any{object{"ErrorEquals": []any{"States.ALL"}, "Next": "Quarantined"}} },
			asl.LintRedrive, "/States/Validate/Catch/0",
		},
		{
			"Backfill", func(s object) {
				delete(s, "ToleratedFailurePercentagePath")
				s["ToleratedFailurePercentage"] = 5
			},
			asl.LintRedrive, "/States/Backfill/ToleratedFailurePercentage",
		},
		{"Backfill", func(s object) { s["Next"] = "Validate" }, asl.LintRedrive, "/States/Backfill/ToleratedFailurePercentage"},
		{"Capture", func(s object) { s["ToleratedFailureCountPath"] = "$.plan.tails" }, asl.LintRedrive, "/States/Capture/ToleratedFailureCount"},
		{"Work", func(s object) { delete(s, "TimeoutSeconds") }, asl.LintTimeout, "/States/Backfill/ItemProcessor/States/Work"},
		{"Promote", func(s object) { delete(s, "TimeoutSeconds") }, asl.LintTimeout, "/States/Promote"},
		{"Plan", func(s object) { delete(s, "Retry") }, asl.LintRetry, "/States/Plan/Retry"},
		{"Backfill", func(s object) { delete(s, "Label") }, asl.LintLabel, "/States/Backfill/Label"},
		{
			"Plan", func(s object) {
				s["Resource"] = "arn:aws:lambda:eu-west-1:123456789012:function:plan"
				s["Parameters"] = object{"is": "${PlanFunction}"}
			},
			asl.LintResource, "/States/Plan/Resource",
		},
		{"Plan", func(s object) { s["Resource"] = "arn:aws:lambda:eu-west-1:123456789012:function:plan" }, asl.LintResource, "/States/Plan/Parameters"},
		{"Plan", func(s object) { s["Parameters"] = object{"FunctionName": "the ${PlanFunction}"} }, asl.LintResource, "/States/Plan/Parameters/FunctionName"},
		{"Promote", func(s object) { s["Resource"] = "arn:aws:states:::lambda:invoke.waitForTaskToken" }, asl.LintResource, "/States/Promote/Parameters"},
		{
			"Capture", func(s object) {
				s["ItemReader"].(object)["Parameters"] = object{"Bucket": "s3://bucket", "Key.$": "$.plan.tailsKey"} //nolint:forcetypeassert // the definition has it
			},
			asl.LintResource, "/States/Capture/ItemReader/Parameters/Bucket",
		},
	} {
		var definition struct {
			StartAt string
			States  object
		}
		if err := json.Unmarshal(infra.Backfill, &definition); err != nil {
			t.Fatal(err)
		}
		state, ok := definition.States[c.state].(object)
		if !ok {
			backfill, _ := definition.States["Backfill"].(object)
			processor, _ := backfill["ItemProcessor"].(object)
			states, _ := processor["States"].(object)
			if state, ok = states[c.state].(object); !ok {
				t.Fatalf("there is no state %s", c.state)
			}
		}
		c.change(state)
		changed, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		found := parse(t, changed).Lint()
		if len(found) != 1 || found[0].Rule != c.rule || found[0].Path != c.path {
			t.Errorf("found %+v, want %s at %s", found, c.rule, c.path)
		}
	}
}
