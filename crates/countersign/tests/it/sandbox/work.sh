# What a reviewer does, and must be able to: read, ask git, run the tests in a copy.
scratch=$1 rung=$2
git log --oneline | grep -q change
git diff --stat base..change | grep -q test.sh
git blame src.txt | grep -q three
git status --porcelain
grep -rn two src.txt
git show base:src.txt > /dev/null
# On the last rung a judge cannot change modes, which a clone does.
[ "$rung" = landlock ] || git clone -q . "$scratch/clone"
mkdir "$scratch/copy"
cp src.txt test.sh "$scratch/copy/"
cd "$scratch/copy"
sh test.sh
echo more >> src.txt
echo note > "$HOME/note"
tmp=$(mktemp)
echo tmp > "$tmp"
head -c 100 /dev/urandom > /dev/null
ls /proc/self/fd > /dev/null
cat /proc/meminfo > /dev/null
[ "$(printf 'b\na\n' | sort | head -n 1)" = a ]
/usr/bin/python3 -I -c '
import subprocess, threading, tempfile, socket, os
t = threading.Thread(target=lambda: None); t.start(); t.join()
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()); client.close()
subprocess.run(["true"], check=True)
open(tempfile.mkstemp()[1], "w").write("x")
os.getpid(), os.uname()
'
if command -v node > /dev/null; then node -e 'require("child_process").execSync("true")'; fi
if command -v cargo > /dev/null; then cargo --version > /dev/null; fi
