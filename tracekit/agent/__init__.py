"""An agent: samples the programs of one user of one computer, predicts them on designs that do not
exist yet, and reports nothing but the results (docs/agent.md)."""
