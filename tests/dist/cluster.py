"""The manifests of Kubernetes, against the schemas of its API and what makes them safe; and the file of Compose."""

import json
import shutil
import subprocess
import sys

from support import expect, run

# Versions of Kubernetes.
VERSIONS = ["1.32", "1.34"]
TOOLS = ["kubernetes-validate==1.37.0", "PyYAML==6.0.3"]


def python(release):
    """Returns a Python with the validator, in .cache/dist."""
    directory = release.root / ".cache/dist"
    program = directory / "bin/python"
    wanted = directory / "installed"
    if not wanted.is_file() or wanted.read_text() != repr(TOOLS):
        run([sys.executable, "-m", "venv", "--clear", directory])
        run([program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS])
        wanted.write_text(repr(TOOLS))
    return program


def load(release, paths):
    """Returns the documents of YAML files."""
    script = "import json,sys,yaml; print(json.dumps([d for p in sys.argv[1:] for d in yaml.safe_load_all(open(p)) if d]))"
    return json.loads(run([python(release), "-c", script, *paths]))


def kubernetes(release):
    directory = release.root / "deploy/kubernetes"
    [kustomization] = load(release, [directory / "kustomization.yaml"])
    paths = [directory / name for name in kustomization["resources"]]
    listed = {path.name for path in directory.iterdir()} - {"kustomization.yaml"}
    expect(listed == set(kustomization["resources"]), "kustomization.yaml does not list every manifest")
    for version in VERSIONS:
        run([python(release).parent / "kubernetes-validate", "--kubernetes-version", version, "--strict", *paths])
    documents = {(document["kind"], document["metadata"]["name"]): document for document in load(release, paths)}
    for kind in ["Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "Secret", "ConfigMap"]:
        expect((kind, "airlock") in documents, f"no {kind}")
    deployment = documents["Deployment", "airlock"]["spec"]
    expect(deployment["replicas"] == 2, "two gateways")
    labels = deployment["template"]["metadata"]["labels"]
    for selector in [
        deployment["selector"]["matchLabels"],
        documents["Service", "airlock"]["spec"]["selector"],
        documents["PodDisruptionBudget", "airlock"]["spec"]["selector"]["matchLabels"],
    ]:
        expect(selector.items() <= labels.items(), f"{selector} selects no gateway")
    for pod in [deployment["template"]["spec"], documents["Job", "airlock-migrate"]["spec"]["template"]["spec"]]:
        restricted(pod)
    # Forwarded requests have the credentials of callers.
    policy = documents["NetworkPolicy", "airlock"]["spec"]
    expect(set(policy["policyTypes"]) == {"Ingress", "Egress"}, "the policy does not hold in both directions")
    peers = [rule["to"] for rule in policy["egress"] if any(port["port"] == 8080 for port in rule["ports"])]
    expect(peers == [[{"podSelector": {"matchLabels": labels}}]], f"requests are forwarded to other pods: {peers}")
    [container] = deployment["template"]["spec"]["containers"]
    expect(container["readinessProbe"]["httpGet"]["path"] == "/ready", "readiness")
    expect(container["livenessProbe"]["httpGet"]["path"] == "/health", "liveness")
    gateway_file(release, documents["ConfigMap", "airlock"]["data"]["gateway.json"])
    if shutil.which("kubectl"):
        built = run(["kubectl", "kustomize", directory])
        expect(built.count("\nkind: ") == len(documents), "kustomize builds other documents")


def restricted(pod):
    """Checks the rules of the restricted level of pod security, and a root that cannot be written."""
    context = pod["securityContext"]
    expect(context["runAsNonRoot"] is True and context["runAsUser"] == 65532, "the user")
    expect(context["seccompProfile"]["type"] == "RuntimeDefault", "seccomp")
    expect(not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), "namespaces of the host")
    expect(pod["automountServiceAccountToken"] is False, "a token of the cluster")
    expect(all(set(volume) - {"name"} <= {"configMap", "emptyDir", "secret"} for volume in pod["volumes"]), "volumes")
    for container in pod["containers"]:
        own = container["securityContext"]
        expect(own["allowPrivilegeEscalation"] is False, "escalation")
        expect(own["readOnlyRootFilesystem"] is True, "the root can be written")
        expect(own["capabilities"] == {"drop": ["ALL"]}, "capabilities")
        expect("memory" in container["resources"]["limits"], "no limit on memory")


def gateway_file(release, text):
    """Checks a configuration by the program."""
    path = release.scratch / "gateway.json"
    path.write_text(text)
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(release.scratch),
        "AIRLOCK_STORE": "postgres://airlock:secret@127.0.0.1:9/airlock?sslmode=disable",
        "AIRLOCK_STORE_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        "AIRLOCK_REPLICA_URL": "http://10.0.0.5:8080",
    }
    command = [release.program, "check", "--config", path, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)
    errors = json.loads(done.stdout).get("errors", [])
    # The component is elsewhere here, and no PostgreSQL runs.
    left = [error for error in errors if not error["message"].startswith("there is no ") and "store" not in json.dumps(error)]
    expect(not left, left)


def compose(release):
    directory = release.root / "deploy/compose"
    [document] = load(release, [directory / "compose.yaml"])
    services = document["services"]
    expect(set(services) == {"airlock", "postgres", "model"}, sorted(services))
    gateway = services["airlock"]
    expect(gateway["read_only"] is True and gateway["cap_drop"] == ["ALL"], "the gateway is not confined")
    expect(all(port.startswith("127.0.0.1:") for port in gateway["ports"]), "other machines reach the gateway")
    for service in services.values():
        _, _, tag = service["image"].rpartition(":")
        expect(tag == "@VERSION@" or tag[:1].isdigit(), f"no version of an image: {service['image']}")
        expect(set(service.get("networks", [])) <= set(document["networks"]), "a network that is not there")
        named = {volume.partition(":")[0] for volume in service.get("volumes", []) if not volume.startswith(".")}
        expect(named <= set(document["volumes"]), f"volumes {named}")
    expect("postgres" in gateway["depends_on"], "the gateway starts before its store")
    gateway_file(release, (directory / "gateway.json").read_text())
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        variables = {"PATH": "/usr/bin:/bin:/usr/local/bin", "POSTGRES_PASSWORD": "x", "AIRLOCK_STORE_KEY": "x"}
        text = (directory / "compose.yaml").read_text().replace("@VERSION@", release.version)
        path = release.scratch / "compose.yaml"
        path.write_text(text)
        run(["docker", "compose", "--file", path, "config", "--quiet"], env=variables)
