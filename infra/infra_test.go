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

func TestTheDefinitionIsAccepted(t *testing.T) {
	names := map[string]string{}
	for _, s := range step.States() {
		names[string(s)+"Function"] = string(s)
	}
	if _, err := asl.Parse(infra.Backfill, names); err != nil {
		t.Error(err)
	}
	if !json.Valid(infra.Backfill) {
		t.Error("the definition is not JSON")
	}
}
