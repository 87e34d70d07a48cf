// chroot(2): another root for paths, .. stays inside, exec of what is there; EPERM for others.
// krun: host
#include "guest.h"
int main(int argc, char **argv) {
    MUST(mkdir("r", 0755)), MUST(mkdir("r/in", 0755)), close(file_with("r/f", "inside"));
    reap("root", CHILD({
             TRY(chroot("r")), TRY(chdir("/"));
             say("%s", slurp("/../../f"));
             TRY(open("/etc/passwd", O_RDONLY));
             TRY(execl("/bin/true", "true", NULL));
             char b[50];
             say("%s", getcwd(b, 50));
             TRY(access("/in", F_OK));
         }));
    reap("static program in it", CHILD({
             int in = open(argv[0], O_RDONLY), out = open("r/p", O_CREAT | O_WRONLY, 0755);
             char block[65536];
             for (ssize_t n; (n = read(in, block, sizeof(block))) > 0;)
                 write(out, block, n);
             close(out), chroot("r"), chdir("/");
             TRY(execl("/p", "p", NULL)); // its loader is missing
         }));
    setresuid(1000, 1000, 1000);
    TRY(chroot("r"));
    return 0;
}
