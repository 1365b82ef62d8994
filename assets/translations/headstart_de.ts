<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name></name>
    <message>
        <source>{last} is no longer there; the built-in model is used instead.</source>
        <translation>{last} ist nicht mehr da; stattdessen wird das mitgelieferte Modell benutzt.</translation>
    </message>
    <message>
        <source>A question and its answer are deleted.</source>
        <translation>Eine Frage und ihre Antwort sind gelöscht.</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>The answer has ended.</source>
        <translation>Die Antwort ist zu Ende.</translation>
    </message>
    <message>
        <source>The answer is complete. Answer Again gives another one.</source>
        <translation>Die Antwort ist vollständig; „Noch einmal antworten“ gibt eine andere.</translation>
    </message>
    <message>
        <source>{path} cannot be opened ({error}).</source>
        <translation>{path} kann nicht geöffnet werden ({error}).</translation>
    </message>
    <message>
        <source>{error} Until then chats are lost when you quit.</source>
        <translation>{error} Bis dahin gehen Chats beim Beenden verloren.</translation>
    </message>
    <message>
        <source>Headstart was closed while this was being written.</source>
        <translation>Headstart wurde geschlossen, während dies geschrieben wurde.</translation>
    </message>
    <message>
        <source>Stopped before it was begun.</source>
        <translation>Angehalten, bevor es begann.</translation>
    </message>
    <message>
        <source>{error} The answer stays here until it is saved.</source>
        <translation>{error} Die Antwort bleibt hier, bis sie gesichert ist.</translation>
    </message>
    <message>
        <source>Memory is full. Close other programs or chats and continue, or start a new chat.</source>
        <translation>Der Speicher ist voll. Andere Programme oder Chats schließen und fortsetzen, oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>Edited.</source>
        <translation>Bearbeitet.</translation>
    </message>
    <message>
        <source>Stopped.</source>
        <translation>Angehalten.</translation>
    </message>
    <message>
        <source>Stopped at this chat&apos;s token limit.</source>
        <translation>Zu Ende am Token-Limit dieses Chats.</translation>
    </message>
    <message>
        <source>This chat is as long as the model can read. Edit an earlier message or start a new chat.</source>
        <translation>Dieser Chat ist so lang, wie das Modell lesen kann. Bearbeiten Sie eine frühere Nachricht oder beginnen Sie einen neuen Chat.</translation>
    </message>
    <message>
        <source>Interrupted.</source>
        <translation>Unterbrochene Antwort.</translation>
    </message>
    <message>
        <source>This chat has pictures. {words} Load a model that sees them, delete the messages with pictures, or begin a new chat.</source>
        <translation>In diesem Chat sind Bilder. {words} Laden Sie ein Modell, das sie sieht, löschen Sie die Nachrichten mit Bildern, oder beginnen Sie einen neuen Chat.</translation>
    </message>
    <message>
        <source>Stop the answer that is being written, then keep this again.</source>
        <translation>Erst die laufende Antwort anhalten, dann noch einmal „Behalten“ wählen.</translation>
    </message>
    <message>
        <source>Stop the answer that is being written, then send this again.</source>
        <translation>Erst die laufende Antwort anhalten, dann noch einmal senden.</translation>
    </message>
    <message>
        <source>Stop the answer that is being written, then delete this.</source>
        <translation>Stoppe die laufende Antwort und lösche dies danach.</translation>
    </message>
    <message>
        <source>Stop the answer that is being written, then show another version.</source>
        <translation>Stoppe die laufende Antwort und zeige danach eine andere Fassung.</translation>
    </message>
    <message>
        <source>No model is loaded: open or drop one, then ask again.</source>
        <translation>Kein Modell ist geladen: eines öffnen oder hierher ziehen, dann noch einmal fragen.</translation>
    </message>
    <message>
        <source>Removed the folder {name}</source>
        <translation>Ordner {name} entfernt</translation>
    </message>
    <message>
        <source>copy</source>
        <comment>of a chat, behind its title</comment>
        <translation>Kopie</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats moved to the Trash</source>
        <comment>Moved to the Trash</comment>
        <translation>
            <numerusform>Im Papierkorb</numerusform>
            <numerusform>{n:,} Chats im Papierkorb</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats restored</source>
        <comment>Chat restored</comment>
        <translation>
            <numerusform>Chat zurückgelegt</numerusform>
            <numerusform>{n:,} Chats zurückgelegt</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats moved</source>
        <comment>Chat moved</comment>
        <translation>
            <numerusform>Chat verschoben</numerusform>
            <numerusform>{n:,} Chats verschoben</numerusform>
        </translation>
    </message>
    <message>
        <source>Found</source>
        <translation>Gefunden</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>Gestern</translation>
    </message>
    <message>
        <source>Last 7 days</source>
        <translation>Letzte 7 Tage</translation>
    </message>
    <message>
        <source>Last 30 days</source>
        <translation>Letzte 30 Tage</translation>
    </message>
    <message>
        <source>Open or drop a model first.</source>
        <translation>Zuerst ein Modell öffnen oder hierher ziehen.</translation>
    </message>
    <message>
        <source>Open or drop a model first</source>
        <translation>Zuerst ein Modell öffnen oder hierher ziehen</translation>
    </message>
    <message>
        <source>Headstart came to a sudden end while it showed the chat “{title}”. It is in the list, and nothing of it is lost; this is a new chat.</source>
        <translation>Headstart wurde plötzlich beendet, während es den Chat „{title}“ zeigte. Er steht in der Liste, und nichts davon ist verloren; dies ist ein neuer Chat.</translation>
    </message>
    <message>
        <source>{name}: the download broke off ({last}). Start it again.</source>
        <translation>{name}: Der Download ist abgebrochen ({last}). Bitte neu starten.</translation>
    </message>
    <message>
        <source>Checking the file</source>
        <translation>Wird geprüft</translation>
    </message>
    <message>
        <source>Checking what can be done with it.</source>
        <translation>Was es ist, entscheidet, was damit geschieht.</translation>
    </message>
    <message>
        <source>Add to the message</source>
        <translation>In die Nachricht schreiben</translation>
    </message>
    <message>
        <source>This can&apos;t be used</source>
        <translation>Damit lässt sich nichts anfangen</translation>
    </message>
    <message>
        <source>Drop one model at a time</source>
        <translation>Nur ein Modell auf einmal</translation>
    </message>
    <message>
        <source>Several text files can be dropped together.</source>
        <translation>Textdateien können zusammen abgelegt werden.</translation>
    </message>
    <message>
        <source>Load {name}</source>
        <translation>{name} laden</translation>
    </message>
    <message>
        <source>Opened in place, not copied</source>
        <translation>Wird an seinem Ort geöffnet, nicht kopiert</translation>
    </message>
    <message>
        <source>Models, texts and pictures (*.gguf *.safetensors *.json *.txt *.md *.py *);;All files (*)</source>
        <translation>Modelle, Texte und Bilder (*.gguf *.safetensors *.json *.txt *.md *.py *);;Alle Dateien (*)</translation>
    </message>
    <message>
        <source>with {name} as drafting heads</source>
        <translation>mit {name} als Entwurfsköpfen</translation>
    </message>
    <message>
        <source>with {name}, to see pictures</source>
        <translation>mit {name}, um Bilder zu sehen</translation>
    </message>
    <message>
        <source>Add {name} to the library</source>
        <translation>{name} in die Bibliothek aufnehmen</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} models, opened in place</source>
        <comment>1 model, opened in place</comment>
        <translation>
            <numerusform>1 Modell, an seinem Ort geöffnet</numerusform>
            <numerusform>{n:,} Modelle, an ihrem Ort geöffnet</numerusform>
        </translation>
    </message>
    <message>
        <source>These are drafting heads</source>
        <translation>Das sind Entwurfsköpfe</translation>
    </message>
    <message>
        <source>Load the model they belong to first.</source>
        <translation>Zuerst das Modell laden, zu dem sie gehören.</translation>
    </message>
    <message>
        <source>Use {name} as drafting heads</source>
        <translation>{name} als Entwurfsköpfe verwenden</translation>
    </message>
    <message>
        <source>for {name}, which reloads</source>
        <translation>für {name}, das neu geladen wird</translation>
    </message>
    <message>
        <source>Download {hub_id}</source>
        <translation>{hub_id} herunterladen</translation>
    </message>
    <message>
        <source>Its size is shown before it starts.</source>
        <translation>Die Größe wird vor dem Start gezeigt.</translation>
    </message>
    <message>
        <source>Import {name}</source>
        <translation>{name} importieren</translation>
    </message>
    <message numerus="yes">
        <source>Import {n:,} chats</source>
        <translation>
            <numerusform>{n:,} Chat importieren</numerusform>
            <numerusform>{n:,} Chats importieren</numerusform>
        </translation>
    </message>
    <message>
        <source>Chats of your own; to attach one as text, choose it as attachment.</source>
        <translation>Eigene Chats; um einen als Text anzuhängen, als Anhang auswählen.</translation>
    </message>
    <message>
        <source>Attach {name}</source>
        <translation>{name} anhängen</translation>
    </message>
    <message numerus="yes">
        <source>Attach {n:,} files</source>
        <translation>
            <numerusform>{n:,} Datei anhängen</numerusform>
            <numerusform>{n:,} Dateien anhängen</numerusform>
        </translation>
    </message>
    <message>
        <source>Open</source>
        <comment>title of a dialog</comment>
        <translation>Öffnen</translation>
    </message>
    <message numerus="yes">
        <source>Export {n:,} Chats</source>
        <comment>Export 1 Chat</comment>
        <translation>
            <numerusform>1 Chat exportieren</numerusform>
            <numerusform>{n:,} Chats exportieren</numerusform>
        </translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation>Chat exportieren</translation>
    </message>
    <message>
        <source>The chat was written to {path}.</source>
        <translation>Der Chat wurde nach {path} geschrieben.</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats were written to {folder}.</source>
        <comment>1 chat was written to {folder}.</comment>
        <translation>
            <numerusform>1 Chat wurde nach {folder} geschrieben.</numerusform>
            <numerusform>{n:,} Chats wurden nach {folder} geschrieben.</numerusform>
        </translation>
    </message>
    <message>
        <source>Chats (*.md *.json *.jsonl)</source>
        <translation>Chats (*.md *.json *.jsonl)</translation>
    </message>
    <message>
        <source>{error} {done:,} of {total:,} chats were written.</source>
        <translation>{error} {done:,} von {total:,} Chats wurden geschrieben.</translation>
    </message>
    <message>
        <source>Markdown (*.md);;PDF (*.pdf);;JSON with everything (*.json)</source>
        <translation>Markdown (*.md);;PDF (*.pdf);;JSON mit allem (*.json)</translation>
    </message>
    <message>
        <source>Chat with language models on your Mac. A model&apos;s own drafting heads guess a few tokens ahead, and the model checks them all at once: the same answer, sooner.</source>
        <translation>Mit Sprachmodellen auf dem eigenen Mac chatten. Die Entwurfsköpfe eines Modells raten einige Token voraus, und das Modell prüft sie auf einmal: dieselbe Antwort, früher.</translation>
    </message>
    <message>
        <source>Apache License 2.0</source>
        <translation>Apache-Lizenz 2.0</translation>
    </message>
    <message>
        <source>“{name}” already exists. Do you want to replace it?</source>
        <translation>„{name}“ gibt es schon. Soll es ersetzt werden?</translation>
    </message>
    <message>
        <source>Writing {total:,} chats to {folder}: {done:,} are done.</source>
        <translation>{total:,} Chats werden nach {folder} geschrieben: {done:,} sind fertig.</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Chats importieren</translation>
    </message>
    <message>
        <source>Importing {total:,} chats: {done:,} are done.</source>
        <translation>{total:,} Chats werden importiert: {done:,} sind fertig.</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats imported.</source>
        <comment>1 chat imported.</comment>
        <translation>
            <numerusform>1 Chat importiert.</numerusform>
            <numerusform>{n:,} Chats importiert.</numerusform>
        </translation>
    </message>
    <message>
        <source>This link is not opened: {link}</source>
        <translation>Dieser Link wird nicht geöffnet: {link}</translation>
    </message>
    <message>
        <source>Nothing has been logged yet; it will be in {log_file}.</source>
        <translation>Noch wurde nichts protokolliert; das Protokoll wird in {log_file} stehen.</translation>
    </message>
    <message>
        <source>About Headstart</source>
        <translation>Über Headstart</translation>
    </message>
    <message>
        <source>Version {version}</source>
        <translation>Version {version}</translation>
    </message>
    <message>
        <source>Keyboard Shortcuts</source>
        <translation>Tastenkürzel</translation>
    </message>
    <message>
        <source>Chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>Downloading</source>
        <translation>Wird heruntergeladen</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>Wird geladen</translation>
    </message>
    <message>
        <source>Models with drafting heads, best for this Mac first</source>
        <translation>Mit erhaltenen Entwurfsköpfen, das beste für diesen Rechner zuerst</translation>
    </message>
    <message>
        <source>Signing in</source>
        <translation>Anmelden</translation>
    </message>
    <message>
        <source>Hugging Face does not answer. Check the network, then press Return to ask again.</source>
        <translation>Hugging Face antwortet nicht. Netzwerk prüfen, dann mit der Eingabetaste noch einmal fragen.</translation>
    </message>
    <message>
        <source>Searching</source>
        <translation>Suche läuft</translation>
    </message>
    <message>
        <source>Nothing on Hugging Face matches “{words}”.</source>
        <translation>Auf Hugging Face passt nichts zu „{words}“.</translation>
    </message>
    <message>
        <source>Move {name} ({size}) to the Trash?</source>
        <translation>{name} ({size}) in den Papierkorb legen?</translation>
    </message>
    <message>
        <source>Move {name} to the Trash?</source>
        <translation>{name} in den Papierkorb legen?</translation>
    </message>
    <message>
        <source>The space is free once the Trash is emptied.</source>
        <translation>Der Platz wird frei, sobald der Papierkorb geleert ist.</translation>
    </message>
    <message>
        <source>Move to Trash</source>
        <translation>In den Papierkorb legen</translation>
    </message>
    <message>
        <source>{name} is downloaded.</source>
        <translation>{name} ist heruntergeladen.</translation>
    </message>
    <message>
        <source>Look for models in</source>
        <translation>Modelle suchen in</translation>
    </message>
    <message>
        <source>Move to Trash…</source>
        <translation>In den Papierkorb legen …</translation>
    </message>
    <message>
        <source>{path} is no longer there.</source>
        <translation>{path} ist nicht mehr da.</translation>
    </message>
    <message>
        <source>It cannot be loaded as it is.</source>
        <translation>So, wie es ist, lässt es sich nicht laden.</translation>
    </message>
    <message>
        <source>Ejected until your next message</source>
        <translation>Ausgeworfen bis zur nächsten Nachricht</translation>
    </message>
    <message>
        <source>Unloaded after {minutes} min idle, until your next message</source>
        <translation>Nach {minutes} min Ruhe entladen, bis zur nächsten Nachricht</translation>
    </message>
    <message>
        <source>This chat was answered by {name}, which is no longer at {path}. Any other model can go on with it.</source>
        <translation>Dieser Chat wurde von {name} beantwortet, das nicht mehr unter {path} liegt. Jedes andere Modell kann ihn fortsetzen.</translation>
    </message>
    <message>
        <source>This chat was answered by {name}.</source>
        <translation>Dieser Chat wurde von {name} beantwortet.</translation>
    </message>
    <message>
        <source>Not loaded yet. Your next message loads it</source>
        <translation>Beim Start wie gewünscht nicht geladen: Die nächste Frage lädt es</translation>
    </message>
    <message>
        <source>An answer is being written: stop it, then eject the model.</source>
        <translation>Eine Antwort wird gerade geschrieben: erst anhalten, dann das Modell auswerfen.</translation>
    </message>
    <message>
        <source>“{name}” is deleted.</source>
        <translation>„{name}“ ist gelöscht.</translation>
    </message>
    <message>
        <source>{path} could not be read ({strerror}): all settings have their defaults.</source>
        <translation>{path} konnte nicht gelesen werden ({strerror}): Alle Einstellungen stehen auf ihren Standardwerten.</translation>
    </message>
    <message>
        <source>{path}: {note}</source>
        <translation>{path}: {note}</translation>
    </message>
    <message>
        <source>{path} could not be written ({strerror}): allow writing to its folder and make sure its disk has room. Until then changed settings last until you quit.</source>
        <translation>{path} konnte nicht geschrieben werden ({strerror}): Schreiben im Ordner erlauben und für Platz auf dem Laufwerk sorgen. Bis dahin gelten geänderte Einstellungen nur bis zum Beenden.</translation>
    </message>
    <message>
        <source>{path} is damaged: all settings have their defaults.</source>
        <translation>{path} ist beschädigt: Alle Einstellungen stehen auf ihren Standardwerten.</translation>
    </message>
    <message>
        <source>{words} It could not be moved aside ({strerror}).</source>
        <translation>{words} Sie ließ sich nicht beiseitelegen ({strerror}).</translation>
    </message>
    <message>
        <source>{words} The file is kept as {aside}.</source>
        <translation>{words} Die Datei ist als {aside} aufgehoben.</translation>
    </message>
    <message>
        <source>{name} is too large to attach ({size}; {most} at most): take out what matters.</source>
        <translation>{name} ist zu groß zum Anhängen ({size}; höchstens {most}): das Wichtige herausnehmen.</translation>
    </message>
    <message>
        <source>{name} could not be read in {seconds:.0f} s: paste its text.</source>
        <translation>{name} ließ sich nicht in {seconds:.0f} s lesen: den Text einfügen.</translation>
    </message>
    <message>
        <source>{name} could not be read: paste the part that matters instead.</source>
        <translation>{name} ließ sich nicht lesen: stattdessen den wichtigen Teil einfügen.</translation>
    </message>
    <message>
        <source>{name} {problem}</source>
        <translation>{name} {problem}</translation>
    </message>
    <message>
        <source>needs the readers of documents, which are not installed: pip install &apos;headstart[documents]&apos;, or paste its text.</source>
        <translation>braucht die Leser für Dokumente, die nicht installiert sind: pip install &apos;headstart[documents]&apos;, oder den Text einfügen.</translation>
    </message>
    <message>
        <source>needs too much memory to be read: paste the part that matters.</source>
        <translation>braucht zum Lesen zu viel Speicher: den wichtigen Teil einfügen.</translation>
    </message>
    <message>
        <source>holds no text, at most pictures: use a model that sees pictures, have its text recognised first, or paste it.</source>
        <translation>enthält keinen Text, höchstens Bilder: ein Modell verwenden, das Bilder sieht, den Text vorher erkennen lassen, oder ihn einfügen.</translation>
    </message>
    <message>
        <source>is locked with a password: save a copy without one, then attach that.</source>
        <translation>ist mit einem Passwort gesperrt: eine Kopie ohne Passwort sichern und diese anhängen.</translation>
    </message>
    <message>
        <source>is no Word document, though its name says so.</source>
        <translation>ist kein Word-Dokument, obwohl der Name das sagt.</translation>
    </message>
    <message>
        <source>unpacks to {size}, which is too much: paste the part that matters.</source>
        <translation>wird entpackt {size} groß, das ist zu viel: den wichtigen Teil einfügen.</translation>
    </message>
    <message>
        <source>{text}: cannot be opened ({error}).</source>
        <translation>{text}: lässt sich nicht öffnen ({error}).</translation>
    </message>
    <message>
        <source>This is neither a file here nor a model on the hub. Drop a model folder, a .gguf file, or a link such as https://huggingface.co/Qwen/Qwen3.5-0.8B.</source>
        <translation>Das ist weder eine Datei auf diesem Rechner noch ein Modell auf dem Hub. Hierher passt ein Modellordner, eine .gguf-Datei oder ein Link wie https://huggingface.co/Qwen/Qwen3.5-0.8B.</translation>
    </message>
    <message>
        <source>{place}: there is no such file or folder.</source>
        <translation>{place}: Diese Datei oder diesen Ordner gibt es nicht.</translation>
    </message>
    <message>
        <source>{name} is not downloaded to its end: wait for it, then drop it.</source>
        <translation>{name} ist nicht zu Ende heruntergeladen: abwarten, dann noch einmal hierher ziehen.</translation>
    </message>
    <message>
        <source>{name} could run code on this Mac when opened, so it is not. Take a version with .safetensors files.</source>
        <translation>{name} könnte beim Öffnen Code auf diesem Mac ausführen und wird deshalb nicht geöffnet. Eine Version mit .safetensors-Dateien nehmen.</translation>
    </message>
    <message>
        <source>{name} holds weights as {program} has them: take a .gguf, or a folder with .safetensors, of the model.</source>
        <translation>{name} enthält Gewichte in der Form von {program}: vom Modell eine .gguf-Datei oder einen Ordner mit .safetensors nehmen.</translation>
    </message>
    <message>
        <source>{name}: {problem}.</source>
        <translation>{name}: {problem}.</translation>
    </message>
    <message>
        <source>{name} is the picture part of a model, and several models here could be it ({names}): load the one that it is for, then drop it again.</source>
        <translation>{name} ist der Bildteil eines Modells, und hier könnten es mehrere sein ({names}): das Modell laden, zu dem er gehört, und ihn dann wieder hierher ziehen.</translation>
    </message>
    <message>
        <source>{name} is the picture part of a model that is neither loaded nor here: load it first, then drop this again, or drop both together.</source>
        <translation>{name} ist der Bildteil eines Modells, das weder geladen noch hier ist: erst das Modell laden und ihn dann wieder hierher ziehen, oder beide zusammen.</translation>
    </message>
    <message>
        <source>{name} lies here without its config.json: drop the whole model folder, or download the missing files beside it.</source>
        <translation>{name} liegt hier ohne die zugehörige config.json: den ganzen Modellordner hierher ziehen oder die fehlenden Dateien dazu herunterladen.</translation>
    </message>
    <message>
        <source>{name} holds {count} files of drafting heads: drop one of them.</source>
        <translation>{name} enthält {count} Dateien mit Entwurfsköpfen: eine davon ablegen.</translation>
    </message>
    <message>
        <source>{name} holds no model near its top: it needs a .gguf, or .safetensors with config. Add the folder in Models to have all of it searched.</source>
        <translation>{name} enthält weit oben kein Modell: Nötig ist eine .gguf-Datei oder .safetensors mit config. Wird der Ordner unter „Modelle“ hinzugefügt, wird er ganz durchsucht.</translation>
    </message>
    <message>
        <source>it holds a LoRA adapter and no model: take a model that it was merged into</source>
        <translation>er enthält einen LoRA-Adapter und kein Modell: ein Modell nehmen, in das dieser eingerechnet ist</translation>
    </message>
    <message>
        <source>{partial} is not downloaded to its end: go on with the download</source>
        <translation>{partial} ist nicht zu Ende heruntergeladen: den Download fortsetzen</translation>
    </message>
    <message>
        <source>{unsafe} could run code when opened: take a version with .safetensors files</source>
        <translation>{unsafe} könnte beim Öffnen Code ausführen: eine Version mit .safetensors-Dateien nehmen</translation>
    </message>
    <message>
        <source>there are no weights in this folder: download the .safetensors files</source>
        <translation>in diesem Ordner sind keine Gewichte: die .safetensors-Dateien herunterladen</translation>
    </message>
    <message>
        <source>config.json is missing: download it too</source>
        <translation>config.json fehlt: auch diese Datei herunterladen</translation>
    </message>
    <message>
        <source>{name} is missing: download that file too</source>
        <translation>{name} fehlt: auch diese Datei herunterladen</translation>
    </message>
    <message>
        <source>{name} cannot be opened ({strerror})</source>
        <translation>{name} lässt sich nicht öffnen ({strerror})</translation>
    </message>
    <message>
        <source>it is no longer there: it was moved or deleted, or its disk is not connected</source>
        <translation>es ist nicht mehr da: verschoben, gelöscht, oder das Laufwerk ist nicht verbunden</translation>
    </message>
    <message>
        <source>the folder cannot be opened ({strerror})</source>
        <translation>der Ordner lässt sich nicht öffnen ({strerror})</translation>
    </message>
    <message>
        <source>the download was not finished</source>
        <translation>der Download wurde nicht beendet</translation>
    </message>
    <message>
        <source>The whole model</source>
        <translation>Das ganze Modell</translation>
    </message>
    <message>
        <source>Hugging Face does not know this token. Copy the whole of it from your account&apos;s page of access tokens.</source>
        <translation>Hugging Face kennt dieses Token nicht. Kopieren Sie es vollständig von der Seite der Zugangstokens Ihres Kontos.</translation>
    </message>
    <message>
        <source>Small and quick</source>
        <translation>Klein und schnell</translation>
    </message>
    <message>
        <source>For everyday questions</source>
        <translation>Für Alltagsfragen</translation>
    </message>
    <message>
        <source>For most things</source>
        <translation>Für das meiste</translation>
    </message>
    <message>
        <source>Thorough, as MLX weights</source>
        <translation>Gründlich, als MLX</translation>
    </message>
    <message>
        <source>{size} to download</source>
        <translation>{size} zu laden</translation>
    </message>
    <message>
        <source>Thorough, also with code</source>
        <translation>Gründlich, auch bei Code</translation>
    </message>
    <message>
        <source>Quick: 3B of it work at a time</source>
        <translation>Schnell: nur 3B rechnen</translation>
    </message>
    <message>
        <source>The largest of the family</source>
        <translation>Das größte der Familie</translation>
    </message>
    <message>
        <source>The draft model {place} is not there: choose another one, or None.</source>
        <translation>Das Entwurfsmodell {place} ist nicht da: ein anderes wählen, oder „Keines“.</translation>
    </message>
    <message>
        <source>{bits}-bit {kind}</source>
        <translation>{bits} Bit, {kind}</translation>
    </message>
    <message>
        <source>{tokens:,} tokens, about {words:,} words</source>
        <translation>{tokens:,} Tokens, etwa {words:,} Wörter</translation>
    </message>
    <message>
        <source>Chats of {asked:,} tokens are asked for; this model reads at most {most:,}.</source>
        <translation>Gewünscht sind Chats von {asked:,} Tokens; dieses Modell liest höchstens {most:,}.</translation>
    </message>
    <message>
        <source>{count} parameters</source>
        <translation>{count} Parameter</translation>
    </message>
    <message>
        <source>Without drafting: {words}</source>
        <translation>Ohne Entwürfe: {words}</translation>
    </message>
    <message>
        <source>Without drafting: this model has no drafting heads.</source>
        <translation>Ohne Entwürfe: Dieses Modell hat keine Entwurfsköpfe.</translation>
    </message>
    <message>
        <source>With drafting ({heads})</source>
        <translation>Mit Entwürfen ({heads})</translation>
    </message>
    <message>
        <source>{heads}, from {name}</source>
        <translation>{heads}, aus {name}</translation>
    </message>
    <message>
        <source>{total}, {count} used at a time</source>
        <translation>{total}, {count} gleichzeitig genutzt</translation>
    </message>
    <message>
        <source>{heads}, seemingly of another model</source>
        <translation>{heads}, anscheinend von einem anderen Modell</translation>
    </message>
    <message>
        <source>is damaged and cannot be read ({error}).</source>
        <translation>ist beschädigt und nicht lesbar ({error}).</translation>
    </message>
    <message>
        <source>an archive or an office document: unpack it, save it as .docx, or paste its text</source>
        <translation>ein Archiv oder Office-Dokument: entpacken, als .docx sichern oder den Text einfügen</translation>
    </message>
    <message>
        <source>an old or a locked office document: save it as .docx without a password</source>
        <translation>ein altes oder gesperrtes Office-Dokument: als .docx ohne Kennwort speichern</translation>
    </message>
    <message>
        <source>compressed: unpack it first</source>
        <translation>komprimiert: zuerst entpacken</translation>
    </message>
    <message>
        <source>rich text: save it as .docx or as plain text, or paste its text</source>
        <translation>Rich Text: als .docx oder als reinen Text sichern, oder den Text einfügen</translation>
    </message>
    <message>
        <source>{name} is a folder: attach the files in it.</source>
        <translation>{name} ist ein Ordner: die Dateien darin anhängen.</translation>
    </message>
    <message>
        <source>{name} is not a file that can be read.</source>
        <translation>{name} ist keine lesbare Datei.</translation>
    </message>
    <message>
        <source>{name} cannot be opened ({reason}).</source>
        <translation>{name} lässt sich nicht öffnen ({reason}).</translation>
    </message>
    <message>
        <source>{name} is too large to attach ({size}; {most} at most): paste the part that matters instead.</source>
        <translation>{name} ist zu groß zum Anhängen ({size}; höchstens {most}): stattdessen den wichtigen Teil einfügen.</translation>
    </message>
    <message>
        <source>{name} is {words}.</source>
        <translation>{name} ist {words}.</translation>
    </message>
    <message>
        <source>{name} is in no known encoding: save it as UTF-8.</source>
        <translation>{name} hat keine bekannte Kodierung: als UTF-8 speichern.</translation>
    </message>
    <message>
        <source>{name} is empty.</source>
        <translation>{name} ist leer.</translation>
    </message>
    <message>
        <source>{name} is not text: it holds binary data.</source>
        <translation>{name} ist kein Text: Die Datei enthält Binärdaten.</translation>
    </message>
    <message>
        <source>Headstart is open already, but does not answer. Two of them would harm each other&apos;s chats: wait a moment or force the other one to quit, then start again.</source>
        <translation>Headstart ist schon geöffnet, antwortet aber nicht. Zwei davon würden einander die Chats beschädigen: einen Moment warten oder das andere sofort beenden, dann noch einmal starten.</translation>
    </message>
    <message>
        <source>Chat {chat_id} is not there any more: open another.</source>
        <translation>Chat {chat_id} ist nicht mehr da: einen anderen öffnen.</translation>
    </message>
    <message>
        <source>is held by another program: close other copies of Headstart and try again</source>
        <translation>wird von einem anderen Programm benutzt: andere Kopien von Headstart schließen und noch einmal versuchen</translation>
    </message>
    <message>
        <source>is held by another program: try again</source>
        <translation>wird von einem anderen Programm benutzt: noch einmal versuchen</translation>
    </message>
    <message>
        <source>cannot grow, its disk is full: free some space and try again</source>
        <translation>kann nicht wachsen, das Laufwerk ist voll: Platz schaffen und noch einmal versuchen</translation>
    </message>
    <message>
        <source>cannot be written to: allow writing to it and its folder, then start again</source>
        <translation>ist schreibgeschützt: Schreiben auf die Datei und ihren Ordner erlauben, dann neu starten</translation>
    </message>
    <message>
        <source>may not be opened: allow access to it</source>
        <translation>darf nicht geöffnet werden: den Zugriff erlauben</translation>
    </message>
    <message>
        <source>cannot be opened: check that its folder exists, may be written to and has room</source>
        <translation>lässt sich nicht öffnen: Der Ordner muss vorhanden und beschreibbar sein und Platz haben</translation>
    </message>
    <message>
        <source>is damaged: start Headstart again, it keeps the file aside and saves what it can</source>
        <translation>ist beschädigt: Headstart neu starten, dann wird die Datei aufgehoben und gerettet, was geht</translation>
    </message>
    <message>
        <source>contradicts itself: start Headstart again</source>
        <translation>widerspricht sich: Headstart neu starten</translation>
    </message>
    <message>
        <source>is damaged: it is not a database</source>
        <translation>ist beschädigt: Das ist keine Datenbank</translation>
    </message>
    <message>
        <source>could not be read or written: check that its disk is connected and has room</source>
        <translation>konnte nicht gelesen oder geschrieben werden: Ist das Laufwerk verbunden und hat es Platz?</translation>
    </message>
    <message>
        <source>cannot hold a text this long: make it shorter</source>
        <translation>kann einen so langen Text nicht aufnehmen: den Text kürzen</translation>
    </message>
    <message>
        <source>{path} {words} ({error}).</source>
        <translation>{path} {words} ({error}).</translation>
    </message>
    <message>
        <source>{read_only} It could not be read ({error}).</source>
        <translation>{read_only} Lesen war nicht möglich ({error}).</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>Folder {folder} is not there any more: choose another.</source>
        <translation>Ordner {folder} ist nicht mehr da: einen anderen wählen.</translation>
    </message>
    <message>
        <source>Message {message_id} is not there any more: open the chat again.</source>
        <translation>Nachricht {message_id} ist nicht mehr da: den Chat neu öffnen.</translation>
    </message>
    <message>
        <source>Message {parent} is of another chat: open the chat again.</source>
        <translation>Nachricht {parent} gehört zu einem anderen Chat: den Chat neu öffnen.</translation>
    </message>
    <message>
        <source>{path} is held by another program: try again.</source>
        <translation>{path} wird von einem anderen Programm gehalten: noch einmal versuchen.</translation>
    </message>
    <message>
        <source>{path} is held by another program: until it lets go, nothing can be saved.</source>
        <translation>{path} wird von einem anderen Programm gehalten: Bis es loslässt, kann nichts gesichert werden.</translation>
    </message>
    <message>
        <source>{path} is no file.</source>
        <translation>{path} ist keine Datei.</translation>
    </message>
    <message>
        <source>The folder {folder} cannot be made ({strerror}): allow writing to {parent}, then start again.</source>
        <translation>Der Ordner {folder} lässt sich nicht anlegen ({strerror}): Schreiben nach {parent} erlauben, dann neu starten.</translation>
    </message>
    <message>
        <source>{path} was damaged in its search index, which has been made again.</source>
        <translation>{path} war im Suchindex beschädigt; der Index wurde neu erstellt.</translation>
    </message>
    <message>
        <source>{path} is damaged: it is of no known format.</source>
        <translation>{path} ist beschädigt: Ihr Format ist nicht bekannt.</translation>
    </message>
    <message>
        <source>{path} is of an older Headstart and must be brought up to date, but cannot be written to ({why}): allow writing to it and its folder, then start again.</source>
        <translation>{path} stammt von einem älteren Headstart und muss auf den neuen Stand gebracht werden, ist aber schreibgeschützt ({why}): Schreiben auf die Datei und ihren Ordner erlauben, dann neu starten.</translation>
    </message>
    <message>
        <source>{path} was written by a newer Headstart: your chats can be read here, but nothing is saved. Update Headstart to go on with them.</source>
        <translation>{path} wurde von einem neueren Headstart geschrieben: Die Chats sind hier lesbar, aber nichts wird gesichert. Für mehr Headstart aktualisieren.</translation>
    </message>
    <message>
        <source>{path} cannot be written to ({why}): your chats can be read, but nothing is saved. Allow writing to it and its folder, make sure its disk has room, then start again.</source>
        <translation>{path} ist schreibgeschützt ({why}): Die Chats sind lesbar, aber nichts wird gesichert. Schreiben auf die Datei und ihren Ordner erlauben und für Platz auf dem Laufwerk sorgen, dann neu starten.</translation>
    </message>
    <message>
        <source>{path} is a database of another program: move it elsewhere, then start again.</source>
        <translation>{path} ist die Datenbank eines anderen Programms: anderswohin verschieben, dann neu starten.</translation>
    </message>
    <message>
        <source>{path} is damaged: it is of no version.</source>
        <translation>{path} ist beschädigt: Sie ist von keiner Version.</translation>
    </message>
    <message>
        <source>{path} is damaged: {finding}.</source>
        <translation>{path} ist beschädigt: {finding}.</translation>
    </message>
    <message>
        <source>{path} is damaged: {error}.</source>
        <translation>{path} ist beschädigt: {error}.</translation>
    </message>
    <message>
        <source>Your chats were updated for this version. A backup is at {copy}.</source>
        <translation>Ihre Chats wurden für diese Version aktualisiert. Eine Sicherung liegt in {copy}.</translation>
    </message>
    <message>
        <source>{path} is damaged and could not be moved aside ({strerror}): move it elsewhere yourself, then start again.</source>
        <translation>{path} ist beschädigt und ließ sich nicht beiseitelegen ({strerror}): von Hand anderswohin verschieben, dann neu starten.</translation>
    </message>
    <message>
        <source>{path} was damaged. It is kept as {aside}.</source>
        <translation>{path} war beschädigt. Die Datei ist als {aside} aufgehoben.</translation>
    </message>
    <message>
        <source>What could be read of it is here: {chats} with {messages}.</source>
        <translation>Was davon lesbar war, ist hier: {chats} mit {messages}.</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} messages</source>
        <comment>1 message</comment>
        <translation>
            <numerusform>1 Nachricht</numerusform>
            <numerusform>{n:,} Nachrichten</numerusform>
        </translation>
    </message>
    <message>
        <source>What could be read of it and of the copy of {day} is here: {chats} with {messages}.</source>
        <translation>Was davon und von der Kopie vom {day} zu lesen war, ist hier: {chats} mit {messages}.</translation>
    </message>
    <message>
        <source>What can be read of it could not be taken over ({error}).</source>
        <translation>Was davon lesbar ist, ließ sich nicht übernehmen ({error}).</translation>
    </message>
    <message>
        <source>{name!r} is not possible: use a name ending in .md, .json or .pdf.</source>
        <translation>{name!r} ist nicht möglich: einen Namen mit der Endung .md, .json oder .pdf verwenden.</translation>
    </message>
    <message>
        <source>{path} could not be written ({strerror}): choose another place, or free space.</source>
        <translation>{path} konnte nicht geschrieben werden ({strerror}): einen anderen Ort wählen oder Platz schaffen.</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} entries of {name} are no chats and were left out.</source>
        <comment>1 entry of {name} is no chat and was left out.</comment>
        <translation>
            <numerusform>1 Eintrag von {name} ist kein Chat und wurde ausgelassen.</numerusform>
            <numerusform>{n:,} Einträge von {name} sind keine Chats und wurden ausgelassen.</numerusform>
        </translation>
    </message>
    <message>
        <source>{path} could not be read ({strerror}).</source>
        <translation>{path} konnte nicht gelesen werden ({strerror}).</translation>
    </message>
    <message>
        <source>{path} is not a chat that Headstart can read: it is nested too deep.</source>
        <translation>{path} ist kein Chat, den Headstart lesen kann: zu tief verschachtelt.</translation>
    </message>
    <message>
        <source>{path} is not a chat that Headstart can read, or is damaged: {error}.</source>
        <translation>{path} ist kein Chat, den Headstart lesen kann, oder beschädigt: {error}.</translation>
    </message>
    <message>
        <source>it is larger than {size} MB</source>
        <translation>größer als {size} MB</translation>
    </message>
    <message>
        <source>it is not text in UTF-8</source>
        <translation>kein Text in UTF-8</translation>
    </message>
    <message>
        <source>it has more than {most:,} messages</source>
        <translation>mehr als {most:,} Nachrichten</translation>
    </message>
    <message>
        <source>&quot;others&quot; is no list</source>
        <translation>„others“ ist keine Liste</translation>
    </message>
    <message>
        <source>message {place} follows {parent}, which is no message before it</source>
        <translation>Nachricht {place} folgt auf {parent}, das keine Nachricht davor ist</translation>
    </message>
    <message>
        <source>Pasted text</source>
        <translation>Eingefügter Text</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Heute</translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>knapp</translation>
    </message>
    <message>
        <source>too large</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>accept its owners&apos; terms on its page first</source>
        <translation>zuerst auf der Seite des Modells die Bedingungen der Eigentümer annehmen</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} downloads a month</source>
        <comment>1 download a month</comment>
        <translation>
            <numerusform>1 Download im Monat</numerusform>
            <numerusform>{n:,} Downloads im Monat</numerusform>
        </translation>
    </message>
    <message>
        <source>Drafting heads</source>
        <translation>Entwurfsköpfe</translation>
    </message>
    <message>
        <source>drafting heads</source>
        <translation>Entwurfsköpfe</translation>
    </message>
    <message>
        <source>no drafting heads</source>
        <translation>keine Entwurfsköpfe</translation>
    </message>
    <message>
        <source>Recent</source>
        <translation>Zuletzt benutzt</translation>
    </message>
    <message>
        <source>Built in</source>
        <translation>Mitgeliefert</translation>
    </message>
    <message>
        <source>{size} model</source>
        <translation>{size} Modell</translation>
    </message>
    <message>
        <source>{size} draft model</source>
        <translation>{size} Entwurfsmodell</translation>
    </message>
    <message>
        <source>{size} chat</source>
        <translation>{size} Chat</translation>
    </message>
    <message>
        <source>{size} working space</source>
        <translation>{size} zum Rechnen</translation>
    </message>
    <message>
        <source>{parts} at {tokens:,} tokens = {needed} of {usable}</source>
        <translation>{parts} bei {tokens:,} Tokens = {needed} von {usable}</translation>
    </message>
    <message>
        <source>{start}: far too large for this computer</source>
        <translation>{start}: viel zu groß für diesen Computer</translation>
    </message>
    <message>
        <source>{start}: fits ({full} with all {tokens:,})</source>
        <translation>{start}: passt ({full} mit allen {tokens:,})</translation>
    </message>
    <message>
        <source>{start}: tight, room for about {tokens:,} tokens</source>
        <translation>{start}: knapp, Platz für etwa {tokens:,} Tokens</translation>
    </message>
    <message>
        <source>{full}: does not fit, room for about {tokens:,} tokens</source>
        <translation>{full}: passt nicht, Platz für etwa {tokens:,} Tokens</translation>
    </message>
    <message>
        <source>{size} other chats</source>
        <translation>{size} andere Chats</translation>
    </message>
    <message>
        <source>{tower} more from the first one on, up to {work} while the model looks at one</source>
        <translation>{tower} mehr ab dem ersten, bis zu {work}, während das Modell eines betrachtet</translation>
    </message>
    <message>
        <source>{start}: does not fit, {over} too much</source>
        <translation>{start}: passt nicht, {over} zu viel</translation>
    </message>
    <message>
        <source>{name}: {content} is not a group of settings; all of it was reset.</source>
        <translation>{name}: {content} ist keine Gruppe von Einstellungen; sie wurde ganz zurückgesetzt.</translation>
    </message>
    <message>
        <source>{name}: {content} is not possible; it was reset.</source>
        <translation>{name}: {content} ist nicht möglich und wurde zurückgesetzt.</translation>
    </message>
    <message>
        <source>{name}: {content} is not possible; it was left out.</source>
        <translation>{name}: {content} ist nicht möglich und wurde weggelassen.</translation>
    </message>
    <message>
        <source>File</source>
        <comment>menu</comment>
        <translation>Ablage</translation>
    </message>
    <message>
        <source>Edit</source>
        <comment>menu</comment>
        <translation>Bearbeiten</translation>
    </message>
    <message>
        <source>Chat</source>
        <comment>menu</comment>
        <translation>Chat</translation>
    </message>
    <message>
        <source>View</source>
        <comment>menu</comment>
        <translation>Darstellung</translation>
    </message>
    <message>
        <source>Appearance</source>
        <comment>menu</comment>
        <translation>Erscheinungsbild</translation>
    </message>
    <message>
        <source>Answer Again</source>
        <translation>Noch einmal antworten</translation>
    </message>
    <message>
        <source>Window</source>
        <comment>menu</comment>
        <translation>Fenster</translation>
    </message>
    <message>
        <source>Help</source>
        <comment>menu</comment>
        <translation>Hilfe</translation>
    </message>
    <message>
        <source>New Chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>New Folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>Open Model or File…</source>
        <translation>Modell oder Datei öffnen …</translation>
    </message>
    <message>
        <source>Eject Model</source>
        <translation>Modell auswerfen</translation>
    </message>
    <message>
        <source>Import Chat…</source>
        <translation>Chat importieren …</translation>
    </message>
    <message>
        <source>Export Chat…</source>
        <translation>Chat exportieren …</translation>
    </message>
    <message>
        <source>Select All</source>
        <translation>Alles auswählen</translation>
    </message>
    <message>
        <source>Copy Last Answer</source>
        <translation>Letzte Antwort kopieren</translation>
    </message>
    <message>
        <source>Find in Chat</source>
        <translation>Im Chat suchen</translation>
    </message>
    <message>
        <source>Find Next</source>
        <translation>Weitersuchen</translation>
    </message>
    <message>
        <source>Find Previous</source>
        <translation>Rückwärts suchen</translation>
    </message>
    <message>
        <source>Search Chats</source>
        <translation>Chats durchsuchen</translation>
    </message>
    <message>
        <source>Continue Answer</source>
        <translation>Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Compare With and Without Drafting</source>
        <translation>Mit und ohne Entwurf vergleichen</translation>
    </message>
    <message>
        <source>Rename Chat</source>
        <translation>Chat umbenennen</translation>
    </message>
    <message>
        <source>Pin Chat</source>
        <translation>Chat anheften</translation>
    </message>
    <message>
        <source>Duplicate Chat</source>
        <translation>Chat duplizieren</translation>
    </message>
    <message>
        <source>Delete Chat</source>
        <translation>Chat löschen</translation>
    </message>
    <message>
        <source>Previous Chat</source>
        <translation>Vorheriger Chat</translation>
    </message>
    <message>
        <source>Next Chat</source>
        <translation>Nächster Chat</translation>
    </message>
    <message>
        <source>Command Palette…</source>
        <translation>Befehle suchen …</translation>
    </message>
    <message>
        <source>Drafting View</source>
        <translation>Entwurfsansicht</translation>
    </message>
    <message>
        <source>Show Drafted Words</source>
        <translation>Entworfene Wörter zeigen</translation>
    </message>
    <message>
        <source>Jump to Latest</source>
        <translation>Zum Neuesten springen</translation>
    </message>
    <message>
        <source>Larger Text</source>
        <translation>Größerer Text</translation>
    </message>
    <message>
        <source>Smaller Text</source>
        <translation>Kleinerer Text</translation>
    </message>
    <message>
        <source>Actual Size</source>
        <translation>Originalgröße</translation>
    </message>
    <message>
        <source>Minimize</source>
        <translation>Im Dock ablegen</translation>
    </message>
    <message>
        <source>Enter Full Screen</source>
        <translation>Vollbild</translation>
    </message>
    <message>
        <source>Close Window</source>
        <translation>Fenster schließen</translation>
    </message>
    <message>
        <source>Show Log File</source>
        <translation>Protokolldatei zeigen</translation>
    </message>
    <message>
        <source>First to ninth chat</source>
        <translation>Erster bis neunter Chat</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Settings…</source>
        <translation>Einstellungen …</translation>
    </message>
    <message>
        <source>Quit Headstart</source>
        <translation>Headstart beenden</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Widerrufen</translation>
    </message>
    <message>
        <source>Redo</source>
        <translation>Wiederholen</translation>
    </message>
    <message>
        <source>Cut</source>
        <translation>Ausschneiden</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Paste</source>
        <translation>Einsetzen</translation>
    </message>
    <message>
        <source>Stop</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>Compare with and without drafting</source>
        <translation>Mit und ohne Entwürfe vergleichen</translation>
    </message>
    <message>
        <source>Sidebar</source>
        <translation>Seitenleiste</translation>
    </message>
    <message>
        <source>Trash</source>
        <translation>Papierkorb</translation>
    </message>
    <message>
        <source>Jump to latest</source>
        <translation>Zum Neuesten springen</translation>
    </message>
    <message>
        <source>Larger text</source>
        <translation>Text größer</translation>
    </message>
    <message>
        <source>Smaller text</source>
        <translation>Text kleiner</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>Zoom</source>
        <translation>Zoomen</translation>
    </message>
    <message>
        <source>Show or hide the sidebar</source>
        <translation>Seitenleiste ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Show or hide chat settings</source>
        <translation>Sitzungsleiste ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Model in use</source>
        <translation>Aktuelles Modell</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>Das Modell wird geladen</translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation>Laden abbrechen</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>Kein Modell</translation>
    </message>
    <message>
        <source>It uses {size} of memory now.</source>
        <translation>Es belegt jetzt {size} Arbeitsspeicher.</translation>
    </message>
    <message>
        <source>With drafting</source>
        <translation>Mit Entwürfen</translation>
    </message>
    <message>
        <source>Without drafting</source>
        <translation>Ohne Entwürfe</translation>
    </message>
    <message>
        <source>Open or drop a model to begin.</source>
        <translation>Eines öffnen oder hierher ziehen, um zu beginnen.</translation>
    </message>
    <message>
        <source>Getting ready</source>
        <translation>Wird vorbereitet</translation>
    </message>
    <message>
        <source>Checking files</source>
        <translation>Dateien werden geprüft</translation>
    </message>
    <message>
        <source>{name}: choose another model</source>
        <translation>{name}: ein anderes Modell wählen</translation>
    </message>
    <message numerus="yes">
        <source>{n} drafting heads</source>
        <comment>1 drafting head</comment>
        <translation>
            <numerusform>1 Entwurfskopf</numerusform>
            <numerusform>{n} Entwurfsköpfe</numerusform>
        </translation>
    </message>
    <message>
        <source>{title}: speed</source>
        <translation>{title}: Tempo</translation>
    </message>
    <message>
        <source>{title}: answer</source>
        <translation>{title}: Antwort</translation>
    </message>
    <message>
        <source>{mean:.2f} tokens per step</source>
        <translation>{mean:.2f} Tokens je Schritt</translation>
    </message>
    <message>
        <source>{share} of guesses right ({accepted:,} of {drafted:,})</source>
        <translation>{share} richtig geraten ({accepted:,} von {drafted:,})</translation>
    </message>
    <message>
        <source>{ratio:.2f} times the speed, though nothing was guessed.</source>
        <translation>Das {ratio:.2f}-fache Tempo, obwohl nichts geraten wurde.</translation>
    </message>
    <message numerus="yes">
        <source>{slower}. This chat guesses {n} tokens ahead in any case; Auto only as many as help.</source>
        <comment>{slower}. This chat guesses 1 token ahead in any case; Auto only as many as help.</comment>
        <translation>
            <numerusform>{slower}. Dieser Chat rät immer 1 Token voraus; Auto nur so viele, wie es nützt.</numerusform>
            <numerusform>{slower}. Dieser Chat rät immer {n} Tokens voraus; Auto nur so viele, wie es nützt.</numerusform>
        </translation>
    </message>
    <message>
        <source>Answers one prompt twice, with drafting and without. The words must be the same; only the speed may differ.</source>
        <translation>Beantwortet eine Frage zweimal, mit Entwürfen und ohne. Die Wörter müssen dieselben sein; nur die Geschwindigkeit darf sich unterscheiden.</translation>
    </message>
    <message>
        <source>Guess ahead</source>
        <translation>Vorausraten</translation>
    </message>
    <message>
        <source>As in this chat: {depth}</source>
        <translation>Wie in diesem Chat: {depth}</translation>
    </message>
    <message>
        <source>Not run yet</source>
        <translation>Noch nicht gelaufen</translation>
    </message>
    <message>
        <source>Reading the prompt</source>
        <translation>Der Prompt wird gelesen</translation>
    </message>
    <message>
        <source>Runs next</source>
        <translation>Läuft als Nächstes</translation>
    </message>
    <message>
        <source>Running</source>
        <translation>Läuft</translation>
    </message>
    <message>
        <source>{speed:.1f} tok/s</source>
        <translation>{speed:.1f} Tok/s</translation>
    </message>
    <message>
        <source>Same {tokens:,} tokens.</source>
        <translation>Dieselben {tokens:,} Tokens.</translation>
    </message>
    <message>
        <source>Same text in other tokens: {tokens:,} with drafting, {others:,} without.</source>
        <translation>Derselbe Text in anderen Tokens: {tokens:,} mit Entwürfen, {others:,} ohne.</translation>
    </message>
    <message>
        <source>Differs from word {number}: {drafted} with drafting, {plain} without.</source>
        <translation>Unterschied ab Wort {number}: {drafted} mit Entwürfen, {plain} ohne.</translation>
    </message>
    <message>
        <source>Differs in spaces or line breaks; the words are the same.</source>
        <translation>Unterschiede bei Leerzeichen oder Zeilenumbrüchen; die Wörter sind dieselben.</translation>
    </message>
    <message>
        <source>the end</source>
        <translation>das Ende</translation>
    </message>
    <message>
        <source>“{word}”</source>
        <translation>„{word}“</translation>
    </message>
    <message>
        <source>{ratio:.2f} times as fast with drafting.</source>
        <translation>Mit Entwürfen {ratio:.2f}-mal so schnell.</translation>
    </message>
    <message>
        <source>As fast with drafting as without.</source>
        <translation>Mit Entwürfen so schnell wie ohne.</translation>
    </message>
    <message>
        <source>{ratio:.2f} times as fast: drafting was slower here</source>
        <translation>{ratio:.2f}-mal so schnell: Entwürfe waren hier langsamer</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>Ergebnis</translation>
    </message>
    <message>
        <source>Speed with drafting over speed without</source>
        <translation>Tempo mit Entwürfen geteilt durch Tempo ohne</translation>
    </message>
    <message>
        <source>Seed {seed}</source>
        <translation>Startwert {seed}</translation>
    </message>
    <message>
        <source>That text is too long to compare with: choose a shorter one.</source>
        <translation>Dieser Text ist für einen Vergleich zu lang: einen kürzeren wählen.</translation>
    </message>
    <message>
        <source>Compare</source>
        <translation>Vergleichen</translation>
    </message>
    <message>
        <source>Prompt to compare with</source>
        <translation>Prompt für den Vergleich</translation>
    </message>
    <message>
        <source>A prompt to run twice</source>
        <translation>Ein Prompt, der zweimal läuft</translation>
    </message>
    <message>
        <source>Run</source>
        <translation>Starten</translation>
    </message>
    <message>
        <source>Drafting on</source>
        <translation>Mit Entwürfen</translation>
    </message>
    <message>
        <source>Drafting off</source>
        <translation>Ohne Entwürfe</translation>
    </message>
    <message>
        <source>Auto</source>
        <translation>Auto</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Angehalten</translation>
    </message>
    <message>
        <source>Failed</source>
        <translation>Fehlgeschlagen</translation>
    </message>
    <message>
        <source>{state}. The texts differ.</source>
        <translation>{state}. Die Texte unterscheiden sich.</translation>
    </message>
    <message>
        <source>{state}. The first {words:,} words are the same.</source>
        <translation>{state}. Die ersten {words:,} Wörter sind dieselben.</translation>
    </message>
    <message>
        <source>Remove {name}</source>
        <translation>{name} entfernen</translation>
    </message>
    <message>
        <source>about {count:,} tokens</source>
        <translation>etwa {count:,} Tokens</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} tokens</source>
        <comment>1 token</comment>
        <translation>
            <numerusform>1 Token</numerusform>
            <numerusform>{n:,} Tokens</numerusform>
        </translation>
    </message>
    <message>
        <source>, longer than the model can read</source>
        <translation>, länger als das Modell lesen kann</translation>
    </message>
    <message>
        <source>Attachment {name}, {words}{problem}</source>
        <translation>Anhang {name}, {words}{problem}</translation>
    </message>
    <message>
        <source>As text</source>
        <translation>Als Text</translation>
    </message>
    <message>
        <source>Attach {name} as text</source>
        <translation>{name} als Text anhängen</translation>
    </message>
    <message>
        <source>As pictures</source>
        <translation>Als Bilder</translation>
    </message>
    <message>
        <source>Attach {name} as pictures</source>
        <translation>{name} als Bilder anhängen</translation>
    </message>
    <message>
        <source>{shown:,} of {count:,} pages as pictures</source>
        <translation>{shown:,} von {count:,} Seiten als Bilder</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} pages as pictures</source>
        <comment>1 page as a picture</comment>
        <translation>
            <numerusform>1 Seite als Bild</numerusform>
            <numerusform>{n:,} Seiten als Bilder</numerusform>
        </translation>
    </message>
    <message>
        <source>Remove picture {number}</source>
        <translation>Bild {number} entfernen</translation>
    </message>
    <message>
        <source>Stop reading</source>
        <translation>Lesen abbrechen</translation>
    </message>
    <message>
        <source>A message takes {most} pictures at most.</source>
        <translation>Eine Nachricht nimmt höchstens {most} Bilder auf.</translation>
    </message>
    <message numerus="yes">
        <source>{n:,} more files were refused.</source>
        <comment>1 more file was refused.</comment>
        <translation>
            <numerusform>1 weitere Datei wurde abgelehnt.</numerusform>
            <numerusform>{n:,} weitere Dateien wurden abgelehnt.</numerusform>
        </translation>
    </message>
    <message>
        <source>{name}: a message takes {most} attachments at most.</source>
        <translation>{name}: Eine Nachricht nimmt höchstens {most} Anhänge auf.</translation>
    </message>
    <message>
        <source>Reading {names}…</source>
        <translation>{names} wird gelesen …</translation>
    </message>
    <message>
        <source>{name} is longer than this model can read ({tokens:,} of {room:,} tokens): remove it, and paste the part that matters.</source>
        <translation>{name} ist länger, als dieses Modell lesen kann ({tokens:,} von {room:,} Tokens): entfernen und den wichtigen Teil einfügen.</translation>
    </message>
    <message>
        <source>The attachments together are longer than this model can read ({tokens:,} of {room:,} tokens): remove some, and paste the parts that matter.</source>
        <translation>Die Anhänge zusammen sind länger, als dieses Modell lesen kann ({tokens:,} von {room:,} Tokens): einige entfernen und die wichtigen Teile einfügen.</translation>
    </message>
    <message>
        <source>Message…</source>
        <translation>Nachricht …</translation>
    </message>
    <message>
        <source>An answer is being written: send this once it has ended, or stop it with Esc.</source>
        <translation>Eine Antwort wird gerade geschrieben: danach senden, oder mit Esc stoppen.</translation>
    </message>
    <message>
        <source>{share} of the room for this chat is used: {used:,} of {length:,} tokens.</source>
        <translation>{share} des Platzes für diesen Chat sind belegt: {used:,} von {length:,} Tokens.</translation>
    </message>
    <message>
        <source>Composer</source>
        <translation>Eingabe</translation>
    </message>
    <message>
        <source>Attach files</source>
        <translation>Dateien anhängen</translation>
    </message>
    <message>
        <source>Send</source>
        <translation>Senden</translation>
    </message>
    <message>
        <source>Pasted picture</source>
        <translation>Eingefügtes Bild</translation>
    </message>
    <message>
        <source>Stop (Esc)</source>
        <translation>Anhalten (Esc)</translation>
    </message>
    <message>
        <source>Send (Return)</source>
        <translation>Senden (Eingabetaste)</translation>
    </message>
    <message>
        <source>Message</source>
        <translation>Nachricht</translation>
    </message>
    <message>
        <source>Clear</source>
        <translation>Löschen</translation>
    </message>
    <message>
        <source>“{text}” isn&apos;t possible here. Use a number from {least} to {most}.</source>
        <translation>„{text}“ ist hier nicht möglich. Nehmen Sie eine Zahl von {least} bis {most}.</translation>
    </message>
    <message>
        <source>{name}, slider</source>
        <translation>{name}, Schieberegler</translation>
    </message>
    <message>
        <source>default</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>That text is too long for this field: {most:,} characters at most.</source>
        <translation>Dieser Text ist für das Feld zu lang: höchstens {most:,} Zeichen.</translation>
    </message>
    <message>
        <source>open</source>
        <translation>aufgeklappt</translation>
    </message>
    <message>
        <source>folded away</source>
        <translation>zugeklappt</translation>
    </message>
    <message>
        <source>Notice</source>
        <translation>Hinweis</translation>
    </message>
    <message>
        <source>Details</source>
        <translation>Details</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
    <message>
        <source>Load…</source>
        <translation>Laden …</translation>
    </message>
    <message>
        <source>Bring back what is gone</source>
        <translation>Zurückholen, was weg ist</translation>
    </message>
    <message>
        <source>The last {count} steps gave {mean:.2f} tokens each.</source>
        <translation>Die letzten {count} Schritte gaben je {mean:.2f} Token.</translation>
    </message>
    <message numerus="yes">
        <source>{n} tokens {cost:.2f}</source>
        <comment>1 token {cost:.2f}</comment>
        <translation>
            <numerusform>1 Token {cost:.2f}</numerusform>
            <numerusform>{n} Token {cost:.2f}</numerusform>
        </translation>
    </message>
    <message>
        <source>Shown with the next answer.</source>
        <translation>Erscheint mit der nächsten Antwort.</translation>
    </message>
    <message>
        <source>Shown once something is guessed.</source>
        <translation>Wird gezeigt, sobald etwas geraten wird.</translation>
    </message>
    <message>
        <source>Token {depth}: {accepted:,} of {drafted:,} right, {share}.</source>
        <translation>Token {depth}: {accepted:,} von {drafted:,} richtig, {share}.</translation>
    </message>
    <message>
        <source>Measured when drafting begins.</source>
        <translation>Wird gemessen, wenn Entwürfe beginnen.</translation>
    </message>
    <message>
        <source>1 token: {one:.1f} ms. Times as long: {rest}.</source>
        <translation>1 Token: {one:.1f} ms. Das Vielfache davon: {rest}.</translation>
    </message>
    <message>
        <source>Guessing</source>
        <comment>stage of a step</comment>
        <translation>Raten</translation>
    </message>
    <message>
        <source>checking</source>
        <comment>stage of a step</comment>
        <translation>Prüfen</translation>
    </message>
    <message>
        <source>choosing</source>
        <comment>stage of a step</comment>
        <translation>Auswählen</translation>
    </message>
    <message>
        <source>the rest</source>
        <comment>stage of a step</comment>
        <translation>Übriges</translation>
    </message>
    <message>
        <source>{name} {share} ({ms:,.0f} ms)</source>
        <translation>{name} {share} ({ms:,.0f} ms)</translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation>Entwürfe</translation>
    </message>
    <message>
        <source>Tokens per step</source>
        <translation>Token je Schritt</translation>
    </message>
    <message>
        <source>Where the time goes</source>
        <translation>Wohin die Zeit geht</translation>
    </message>
    <message>
        <source>Not in use</source>
        <translation>Nicht in Gebrauch</translation>
    </message>
    <message>
        <source>{used:,} of {length:,} tokens</source>
        <translation>{used:,} von {length:,} Tokens</translation>
    </message>
    <message>
        <source>Drafting in this chat, its speed, and how many tokens it has of those that the model can read. {token}
Click for details.</source>
        <translation>Entwürfe in diesem Chat, sein Tempo und wie viele Tokens er hat von denen, die das Modell lesen kann. {token}
Für Details klicken.</translation>
    </message>
    <message>
        <source>Server: not running</source>
        <translation>Server: läuft nicht</translation>
    </message>
    <message>
        <source>Server: on</source>
        <translation>Server: an</translation>
    </message>
    <message numerus="yes">
        <source>Server: {n} requests, {speed:.0f} tok/s</source>
        <comment>Server: 1 request, {speed:.0f} tok/s</comment>
        <translation>
            <numerusform>Server: 1 Anfrage, {speed:.0f} Tok/s</numerusform>
            <numerusform>Server: {n} Anfragen, {speed:.0f} Tok/s</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Guessing {n} tokens ahead now.</source>
        <comment>Guessing 1 token ahead now.</comment>
        <translation>
            <numerusform>Rät gerade 1 Token voraus.</numerusform>
            <numerusform>Rät gerade {n} Tokens voraus.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Last answer: up to {n} tokens ahead.</source>
        <comment>Last answer: 1 token ahead.</comment>
        <translation>
            <numerusform>Letzte Antwort: {n} Token voraus.</numerusform>
            <numerusform>Letzte Antwort: bis zu {n} Tokens voraus.</numerusform>
        </translation>
    </message>
    <message>
        <source>The last answer was written without drafting.</source>
        <translation>Die letzte Antwort entstand ohne Entwürfe.</translation>
    </message>
    <message>
        <source>Answers come faster without drafting here</source>
        <translation>Ohne Entwürfe kommen Antworten hier schneller</translation>
    </message>
    <message>
        <source>{share} of guesses right</source>
        <translation>{share} richtig geraten</translation>
    </message>
    <message>
        <source>Looking at picture {number} of {count}, {share}</source>
        <translation>Bild {number} von {count} wird betrachtet, {share}</translation>
    </message>
    <message>
        <source>Row 1 is the first guessed token of a step, row 2 the second, and so on. A full bar means every guess was right. The further ahead, the harder it is to guess.</source>
        <translation>Zeile 1 ist das erste geratene Token eines Schritts, Zeile 2 das zweite und so weiter. Ein voller Balken heißt: Alles war richtig geraten. Je weiter voraus, desto schwerer ist es zu raten.</translation>
    </message>
    <message>
        <source>A bar for each of the last steps. Below: the one token that a step gives in any case. Above it: what right guesses added.</source>
        <translation>Ein Balken für jeden der letzten Schritte. Unten: das eine Token, das ein Schritt immer bringt. Darüber: was richtig geraten dazukam.</translation>
    </message>
    <message>
        <source>At the left, milliseconds that a step takes; below, tokens that it checks at once. Dashed: the time the same tokens take without drafting. Below it, guessing can pay off. Large dot: in use now.</source>
        <translation>Links die Millisekunden eines Schritts, unten die Tokens, die er auf einmal prüft. Gestrichelt: die Zeit für dieselben Tokens ohne Entwürfe. Darunter kann sich Raten lohnen. Großer Punkt: gerade im Einsatz.</translation>
    </message>
    <message>
        <source>Share of time spent guessing, checking, choosing what to keep, and everything else.</source>
        <translation>Anteil der Zeit für Raten, Prüfen, die Wahl dessen, was bleibt, und alles andere.</translation>
    </message>
    <message>
        <source>What could speed up this model but isn&apos;t available here.</source>
        <translation>Was dieses Modell schneller machen könnte, hier aber nicht zur Verfügung steht.</translation>
    </message>
    <message>
        <source>Each speeds up one part of the model&apos;s arithmetic on the graphics processor (GPU).</source>
        <translation>Jede beschleunigt einen Teil der Rechnungen des Modells auf dem Grafikprozessor (GPU).</translation>
    </message>
    <message>
        <source>{accepted:,} of {drafted:,} guesses were right in this chat ({share}): {mean:.2f} tokens per step instead of 1.</source>
        <translation>{accepted:,} von {drafted:,} geratenen Tokens waren in diesem Chat richtig ({share}): {mean:.2f} Tokens je Schritt statt 1.</translation>
    </message>
    <message>
        <source>Not measured yet. To measure it, choose Chat &gt; Compare With and Without Drafting.</source>
        <translation>Noch nicht gemessen. Zum Messen wählen Sie Chat &gt; Mit und ohne Entwurf vergleichen.</translation>
    </message>
    <message>
        <source>{used} of {all} speedups are in use.</source>
        <translation>{used} von {all} Beschleunigungen sind im Einsatz.</translation>
    </message>
    <message numerus="yes">
        <source>{n} off: {why}</source>
        <comment>1 off: {why}</comment>
        <translation>
            <numerusform>{n} aus: {why}</numerusform>
            <numerusform>{n} aus: {why}</numerusform>
        </translation>
    </message>
    <message>
        <source>In use</source>
        <translation>Im Einsatz</translation>
    </message>
    <message>
        <source>In use for some number formats</source>
        <translation>Im Einsatz für einige Zahlenformate</translation>
    </message>
    <message>
        <source>Off. {why}</source>
        <translation>Aus. {why}</translation>
    </message>
    <message>
        <source>Where the time goes, for the curious.</source>
        <translation>Wohin die Zeit geht, für Neugierige.</translation>
    </message>
    <message>
        <source>Speed in this chat</source>
        <translation>Tempo in diesem Chat</translation>
    </message>
    <message>
        <source>How many guesses were right</source>
        <translation>Wie viel richtig geraten war</translation>
    </message>
    <message>
        <source>Time per step</source>
        <translation>Zeit je Schritt</translation>
    </message>
    <message>
        <source>Speedups on the GPU</source>
        <translation>Beschleunigungen auf der GPU</translation>
    </message>
    <message>
        <source>Nothing has been guessed in this chat yet.</source>
        <translation>In diesem Chat wurde noch nichts geraten.</translation>
    </message>
    <message>
        <source>{drafted:.1f} tokens per second with drafting, {plain:.1f} without: {ratio:.2f} times as fast.</source>
        <translation>{drafted:.1f} Tokens je Sekunde mit Entwürfen, {plain:.1f} ohne: das {ratio:.2f}-fache Tempo.</translation>
    </message>
    <message>
        <source>Everything that speeds up this model is in use.</source>
        <translation>Nichts wurde abgelehnt.</translation>
    </message>
    <message>
        <source>None is in use.</source>
        <translation>Keine in Gebrauch.</translation>
    </message>
    <message>
        <source>All tokens</source>
        <translation>Alle Tokens</translation>
    </message>
    <message>
        <source>As exact as the answer itself.</source>
        <translation>So genau wie die Antwort selbst.</translation>
    </message>
    <message>
        <source>Frequent tokens</source>
        <translation>Häufige Tokens</translation>
    </message>
    <message>
        <source>Only the most frequent tokens, and those of the chat, can be guessed.</source>
        <translation>Nur die häufigsten Tokens und die des Chats können geraten werden.</translation>
    </message>
    <message>
        <source>Guessing stops before the first token that is less certain than this, from 0 to 1. Higher: fewer guesses, and more of them right.</source>
        <translation>Das Raten endet vor dem ersten Token, das weniger sicher ist als hier angegeben, von 0 bis 1. Höher: Es wird weniger geraten, und mehr davon ist richtig.</translation>
    </message>
    <message>
        <source>How many tokens are guessed at a time. More can be faster, but the further ahead, the more guesses are wrong.</source>
        <translation>Wie viele Tokens auf einmal geraten werden. Mehr kann schneller sein, aber je weiter voraus, desto mehr ist falsch geraten.</translation>
    </message>
    <message>
        <source>What guesses the next tokens. The text stays the same.</source>
        <translation>Was die nächsten Tokens rät. Der Text bleibt derselbe.</translation>
    </message>
    <message>
        <source>Tokens per second of drafting with this model, for each value used so far.</source>
        <translation>Tokens je Sekunde mit Entwürfen bei diesem Modell, für jeden bisher genutzten Wert.</translation>
    </message>
    <message>
        <source>A second, much smaller model guesses. It is chosen in the load options.</source>
        <translation>Ein zweites, viel kleineres Modell rät. Es wird in den Ladeoptionen gewählt.</translation>
    </message>
    <message>
        <source>Repeats in the chat</source>
        <translation>Wiederholungen im Chat</translation>
    </message>
    <message>
        <source>Repeats, else drafting heads</source>
        <translation>Wiederholungen, sonst Köpfe</translation>
    </message>
    <message>
        <source>{first} Elsewhere, the drafting heads guess.</source>
        <translation>{first} Sonst raten die Entwurfsköpfe.</translation>
    </message>
    <message>
        <source>Repeats, else draft model</source>
        <translation>Wiederholungen, sonst Modell</translation>
    </message>
    <message>
        <source>{first} Elsewhere, the draft model guesses.</source>
        <translation>{first} Sonst rät das Entwurfsmodell.</translation>
    </message>
    <message>
        <source>Nothing is guessed: no drafting.</source>
        <translation>Nichts wird geraten: keine Entwürfe.</translation>
    </message>
    <message>
        <source>Most likely</source>
        <translation>Wahrscheinlich</translation>
    </message>
    <message>
        <source>Always the most likely token.</source>
        <translation>Immer das wahrscheinlichste Token.</translation>
    </message>
    <message>
        <source>No drafting.</source>
        <translation>Keine Entwürfe.</translation>
    </message>
    <message>
        <source>All tokens, less exact</source>
        <translation>Alle Tokens, weniger genau</translation>
    </message>
    <message>
        <source>Uses a smaller copy of part of the model, with rounded numbers.</source>
        <translation>Nutzt eine kleinere Kopie eines Teils des Modells, mit gerundeten Zahlen.</translation>
    </message>
    <message>
        <source>Which tokens the drafting heads consider. Fewer of them, or less exact ones, are quicker, but a few more guesses are wrong. The text stays the same.</source>
        <translation>Welche Tokens die Entwurfsköpfe erwägen. Weniger oder weniger genaue sind schneller, doch etwas öfter falsch geraten. Der Text bleibt derselbe.</translation>
    </message>
    <message>
        <source>Which of the likely tokens is guessed: the most likely, or one picked at random as in the answer. The text stays the same.</source>
        <translation>Welches der wahrscheinlichen Tokens geraten wird: das wahrscheinlichste, oder ein zufällig gezogenes wie in der Antwort. Der Text bleibt derselbe.</translation>
    </message>
    <message>
        <source>{speed:.1f} tok/s ({setting})</source>
        <translation>{speed:.1f} Tok/s ({setting})</translation>
    </message>
    <message>
        <source>Speed so far: {told}.</source>
        <translation>Tempo bisher: {told}.</translation>
    </message>
    <message>
        <source>If the latest words already appeared in the chat, guesses that the same words follow again.</source>
        <translation>Kamen die letzten Wörter im Chat schon vor, wird geraten, dass dieselben Wörter wieder folgen.</translation>
    </message>
    <message>
        <source>Like the answer</source>
        <translation>Wie die Antwort</translation>
    </message>
    <message>
        <source>Picks as randomly as the answer does, so more guesses are right.</source>
        <translation>Wählt so zufällig wie die Antwort; so ist mehr richtig geraten.</translation>
    </message>
    <message>
        <source>As many tokens at a time as makes answers faster.</source>
        <translation>So viele Tokens auf einmal, wie Antworten schneller machen.</translation>
    </message>
    <message>
        <source>A number you choose.</source>
        <translation>Eine Zahl, die Sie wählen.</translation>
    </message>
    <message>
        <source>What guesses the next tokens, and how.</source>
        <translation>Was die nächsten Tokens rät, und wie.</translation>
    </message>
    <message>
        <source>Advanced drafting</source>
        <translation>Entwürfe: Weiteres</translation>
    </message>
    <message>
        <source>Guesses come from</source>
        <translation>Geraten wird durch</translation>
    </message>
    <message>
        <source>Minimum certainty</source>
        <translation>Mindestsicherheit</translation>
    </message>
    <message>
        <source>Guess among</source>
        <translation>Geraten wird unter</translation>
    </message>
    <message>
        <source>How many of the most frequent tokens can be guessed, beside those of the chat.</source>
        <translation>Wie viele der häufigsten Tokens geraten werden können, neben denen des Chats.</translation>
    </message>
    <message>
        <source>Which token is guessed</source>
        <translation>Welches Token geraten wird</translation>
    </message>
    <message>
        <source>Nothing is guessed: no source is chosen.</source>
        <translation>Nichts wird geraten: Es ist nichts gewählt, was rät.</translation>
    </message>
    <message>
        <source>The prompt is being read.</source>
        <translation>Der Prompt wird gelesen.</translation>
    </message>
    <message>
        <source>Last answer: {words}</source>
        <translation>Letzte Antwort: {words}</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>Liest die Eingabe …</translation>
    </message>
    <message>
        <source>Not drafting now.</source>
        <translation>Gerade ohne Entwurf.</translation>
    </message>
    <message>
        <source>answers come faster without drafting here</source>
        <translation>ohne Entwürfe kommen Antworten hier schneller</translation>
    </message>
    <message>
        <source>Drafting is paused: answers come faster without it here</source>
        <translation>Entwürfe sind pausiert: Ohne sie kommen Antworten hier schneller</translation>
    </message>
    <message>
        <source>{ratio:.1f}× faster with drafting</source>
        <translation>{ratio:.1f}-mal so schnell mit Entwurf</translation>
    </message>
    <message>
        <source>{done:,} of {total:,} tokens read</source>
        <translation>{done:,} von {total:,} Token gelesen</translation>
    </message>
    <message>
        <source>Drafting status</source>
        <translation>Stand der Entwürfe</translation>
    </message>
    <message>
        <source>Drop</source>
        <translation>Ablegen</translation>
    </message>
    <message>
        <source>Something went wrong in Headstart</source>
        <translation>In Headstart ist ein Fehler aufgetreten</translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation>Details kopieren</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>{others} more since then: Help, Show log file has all of them.</source>
        <translation>Seitdem {others} weitere: Hilfe, „Protokolldatei zeigen“ enthält alle.</translation>
    </message>
    <message>
        <source>Copied</source>
        <translation>Kopiert</translation>
    </message>
    <message>
        <source>Waiting</source>
        <translation>Wartet</translation>
    </message>
    <message>
        <source>Paused</source>
        <translation>Angehalten</translation>
    </message>
    <message>
        <source>Load</source>
        <translation>Laden</translation>
    </message>
    <message>
        <source>Sign In…</source>
        <translation>Anmelden …</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>Pausieren</translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation>Den Download abbrechen</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>Download von {name}</translation>
    </message>
    <message>
        <source>{name}, downloaded</source>
        <translation>{name}, heruntergeladen</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Remove from this list</source>
        <translation>Aus dieser Liste entfernen</translation>
    </message>
    <message>
        <source>Getting files and sizes</source>
        <translation>Dateien und Größen werden erfragt</translation>
    </message>
    <message>
        <source>{size} · downloaded</source>
        <translation>{size} · heruntergeladen</translation>
    </message>
    <message>
        <source>{size}/s</source>
        <translation>{size}/s</translation>
    </message>
    <message>
        <source>{time} left</source>
        <translation>noch {time}</translation>
    </message>
    <message>
        <source>{part} of {whole} {unit}</source>
        <translation>{part} von {whole} {unit}</translation>
    </message>
    <message>
        <source>{minutes} min</source>
        <translation>{minutes} min</translation>
    </message>
    <message>
        <source>{hours} h {minutes} min</source>
        <translation>{hours} h {minutes} min</translation>
    </message>
    <message>
        <source>Drop a model here, or start with the built-in one</source>
        <translation>Ein Modell hierher ziehen oder mit dem mitgelieferten beginnen</translation>
    </message>
    <message>
        <source>First steps</source>
        <translation>Erste Schritte</translation>
    </message>
    <message>
        <source>Skip these steps and use the built-in model</source>
        <translation>Diese Schritte überspringen und das eingebaute Modell nehmen</translation>
    </message>
    <message>
        <source>The model loads by itself. Until then, a small built-in model answers.</source>
        <translation>Das Modell wird von selbst geladen. Bis dahin antwortet das kleine eingebaute.</translation>
    </message>
    <message>
        <source>Get a model in three steps</source>
        <translation>In drei Schritten zum Modell</translation>
    </message>
    <message>
        <source>1. Pick a model</source>
        <translation>1. Ein Modell auswählen</translation>
    </message>
    <message>
        <source>2. Download it</source>
        <translation>2. Laden</translation>
    </message>
    <message>
        <source>3. Ask</source>
        <translation>3. Fragen</translation>
    </message>
    <message>
        <source>These fit in the memory this computer has for models ({size}).</source>
        <translation>Sie passen in die {size} Speicher, die dieser Rechner für Modelle hat.</translation>
    </message>
    <message>
        <source>Start</source>
        <translation>Start</translation>
    </message>
    <message>
        <source>Start with the built-in one</source>
        <translation>Mit dem mitgelieferten beginnen</translation>
    </message>
    <message>
        <source>Recent models</source>
        <translation>Zuletzt benutzte Modelle</translation>
    </message>
    <message>
        <source>Welcome to Headstart</source>
        <translation>Willkommen bei Headstart</translation>
    </message>
    <message>
        <source>Browse Models</source>
        <translation>Modelle zum Herunterladen</translation>
    </message>
    <message>
        <source>Write a function that checks whether a text is a palindrome, with tests.</source>
        <translation>Schreibe eine Funktion, die prüft, ob ein Text ein Palindrom ist, mit Tests.</translation>
    </message>
    <message>
        <source>Explain what a race condition is, with a short example in Python.</source>
        <translation>Erkläre an einem kurzen Beispiel in Python, was eine Race Condition ist.</translation>
    </message>
    <message>
        <source>Write a shell script that renames all .jpeg files to .jpg.</source>
        <translation>Schreibe ein Shell-Skript, das alle .jpeg-Dateien in .jpg umbenennt.</translation>
    </message>
    <message>
        <source>A bat and a ball cost $1.10, the bat $1 more than the ball. What does the ball cost?</source>
        <translation>Schläger und Ball kosten 1,10 €, der Schläger 1 € mehr als der Ball. Was kostet der Ball?</translation>
    </message>
    <message>
        <source>Explain how vaccines work, for a ten-year-old.</source>
        <translation>Erkläre einem Zehnjährigen, wie Impfungen wirken.</translation>
    </message>
    <message>
        <source>Write a friendly email that asks for a later deadline.</source>
        <translation>Schreibe eine freundliche E-Mail, die um eine spätere Frist bittet.</translation>
    </message>
    <message>
        <source>What can I cook with rice, eggs and spinach?</source>
        <translation>Was kann ich mit Reis, Eiern und Spinat kochen?</translation>
    </message>
    <message>
        <source>Look for models on Hugging Face</source>
        <translation>Modelle auf Hugging Face suchen</translation>
    </message>
    <message>
        <source>From huggingface.co, where models are published. Nothing is sent until you click.</source>
        <translation>Von huggingface.co, wo Modelle veröffentlicht werden. Vor Ihrem Klick wird nichts gesendet.</translation>
    </message>
    <message>
        <source>Download {name}. B stands for billions of parameters.</source>
        <translation>{name} herunterladen. B steht für Milliarden Parameter.</translation>
    </message>
    <message>
        <source>A .gguf file, or an MLX or Hugging Face folder</source>
        <translation>Eine .gguf-Datei oder ein MLX- oder Hugging-Face-Ordner</translation>
    </message>
    <message>
        <source>Open…</source>
        <translation>Öffnen …</translation>
    </message>
    <message>
        <source>This model is tiny. It knows little and only English.</source>
        <translation>Dieses Modell ist winzig. Es weiß wenig und kann nur Englisch.</translation>
    </message>
    <message>
        <source>Plan three days in Rome for two people who love food and hate waiting in line.</source>
        <translation>Plane drei Tage in Rom für zwei Menschen, die gern essen und ungern Schlange stehen.</translation>
    </message>
    <message>
        <source>What are the pros and cons of a four-day workweek?</source>
        <translation>Was spricht für und gegen eine Viertagewoche?</translation>
    </message>
    <message>
        <source>Chat with language models on this computer.
{drafting}</source>
        <translation>Mit Sprachmodellen auf diesem Computer chatten.
{drafting}</translation>
    </message>
    <message>
        <source>Choose a model folder or a .gguf file</source>
        <translation>Einen Modellordner oder eine .gguf-Datei wählen</translation>
    </message>
    <message>
        <source>All</source>
        <translation>Alle</translation>
    </message>
    <message>
        <source>Models on Hugging Face</source>
        <translation>Modelle auf Hugging Face</translation>
    </message>
    <message>
        <source>This model needs a Hugging Face account. Accept its owners&apos; terms on its page, then paste an access token of your account here. It is stored where all programs for Hugging Face on this computer look for it.</source>
        <translation>Dieses Modell braucht ein Konto bei Hugging Face. Nehmen Sie auf seiner Seite die Bedingungen der Eigentümer an und fügen Sie dann hier ein Zugangstoken Ihres Kontos ein. Es wird dort abgelegt, wo alle Programme für Hugging Face auf diesem Rechner es suchen.</translation>
    </message>
    <message>
        <source>Open Its Page</source>
        <translation>Seite öffnen</translation>
    </message>
    <message>
        <source>Get a Token</source>
        <translation>Token holen</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>Zugangstoken</translation>
    </message>
    <message>
        <source>Access token, hf_…</source>
        <translation>Zugangstoken, hf_…</translation>
    </message>
    <message>
        <source>Sign In</source>
        <translation>Anmelden</translation>
    </message>
    <message>
        <source>Search Hugging Face</source>
        <translation>Hugging Face durchsuchen</translation>
    </message>
    <message>
        <source>Search, owner/name or a link</source>
        <translation>Suche, Besitzer/Name oder ein Link</translation>
    </message>
    <message>
        <source>Format</source>
        <translation>Format</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>Herunterladen</translation>
    </message>
    <message>
        <source>Signed in to Hugging Face</source>
        <translation>Bei Hugging Face angemeldet</translation>
    </message>
    <message>
        <source>Sign Out</source>
        <translation>Abmelden</translation>
    </message>
    <message>
        <source>Click to see files and sizes</source>
        <translation>Klicken zeigt Dateien und Größen</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>Modelle auf diesem Rechner</translation>
    </message>
    <message>
        <source>Resume Download</source>
        <translation>Download fortsetzen</translation>
    </message>
    <message>
        <source>Show in Folder</source>
        <translation>Im Ordner zeigen</translation>
    </message>
    <message>
        <source>Copy Path</source>
        <translation>Pfad kopieren</translation>
    </message>
    <message>
        <source>Remove from Recent Models</source>
        <translation>Aus „Zuletzt benutzt“ entfernen</translation>
    </message>
    <message>
        <source>{problem}: click to resume</source>
        <translation>{problem}: zum Fortsetzen klicken</translation>
    </message>
    <message>
        <source>Cannot be loaded: {problem}</source>
        <translation>Lässt sich nicht laden: {problem}</translation>
    </message>
    <message>
        <source>Comes with Headstart</source>
        <translation>Wird mit Headstart geliefert</translation>
    </message>
    <message>
        <source>Your folders</source>
        <translation>Eigene Ordner</translation>
    </message>
    <message>
        <source>Look for models in this folder each time Headstart starts</source>
        <translation>Bei jedem Start in einem eigenen Ordner nach Modellen suchen</translation>
    </message>
    <message>
        <source>Change…</source>
        <translation>Ändern …</translation>
    </message>
    <message>
        <source>Choose the download folder</source>
        <translation>Ordner für geladene Modelle wählen</translation>
    </message>
    <message>
        <source>Downloads go to</source>
        <translation>Geladenes kommt nach</translation>
    </message>
    <message>
        <source>{folder} · it is not there now</source>
        <translation>{folder} · ist zurzeit nicht da</translation>
    </message>
    <message>
        <source>Stop looking in {folder}</source>
        <translation>Nicht mehr in {folder} suchen</translation>
    </message>
    <message>
        <source>No models found. Drop a model folder or a .gguf file on the window, or get one from Hugging Face.</source>
        <translation>Keine Modelle gefunden. Einen Modellordner oder eine .gguf-Datei auf das Fenster ziehen oder ein Modell von Hugging Face holen.</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>Auf diesem Rechner</translation>
    </message>
    <message>
        <source>Where</source>
        <translation>Wo</translation>
    </message>
    <message>
        <source>Filter models</source>
        <translation>Modelle filtern</translation>
    </message>
    <message>
        <source>Add Folder…</source>
        <translation>Ordner hinzufügen …</translation>
    </message>
    <message>
        <source>{size} free</source>
        <translation>{size} frei</translation>
    </message>
    <message>
        <source>Download models to</source>
        <translation>Modelle laden nach</translation>
    </message>
    <message>
        <source>Filter</source>
        <translation>Filter</translation>
    </message>
    <message>
        <source>No model matches “{filter}”.</source>
        <translation>Kein Modell passt zu „{filter}“.</translation>
    </message>
    <message>
        <source>Exact</source>
        <translation>Exakt</translation>
    </message>
    <message>
        <source>Fast</source>
        <translation>Schnell</translation>
    </message>
    <message>
        <source>Slightly faster. With drafting, a word may occasionally differ.</source>
        <translation>Etwas schneller. Mit Entwürfen kann gelegentlich ein Wort abweichen.</translation>
    </message>
    <message>
        <source>Context length</source>
        <translation>Kontextlänge</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>Always the same words, with and without drafting.</source>
        <translation>Immer dieselben Wörter, mit und ohne Entwürfe.</translation>
    </message>
    <message>
        <source>The fastest one on this computer.</source>
        <translation>Das schnellste auf diesem Rechner.</translation>
    </message>
    <message>
        <source>float16</source>
        <translation>float16</translation>
    </message>
    <message>
        <source>Fast on every Mac.</source>
        <translation>Auf jedem Mac schnell.</translation>
    </message>
    <message>
        <source>bfloat16</source>
        <translation>bfloat16</translation>
    </message>
    <message>
        <source>16-bit</source>
        <translation>16 Bit</translation>
    </message>
    <message>
        <source>8-bit</source>
        <translation>8 Bit</translation>
    </message>
    <message>
        <source>4-bit</source>
        <translation>4 Bit</translation>
    </message>
    <message>
        <source>The kind of 16-bit numbers that the model computes in. It changes the speed, and answers a little.</source>
        <translation>Die Art von 16-Bit-Zahlen, in denen das Modell rechnet. Sie ändert die Geschwindigkeit und Antworten ein wenig.</translation>
    </message>
    <message>
        <source>How precisely the model remembers the chat. Fewer bits use less memory and change answers slightly.</source>
        <translation>Wie genau sich das Modell den Chat merkt. Weniger Bits brauchen weniger Speicher und ändern Antworten leicht.</translation>
    </message>
    <message>
        <source>How precisely the drafting heads remember the chat. Fewer bits use less memory; answers stay the same.</source>
        <translation>Wie genau sich die Entwurfsköpfe den Chat merken. Weniger Bits brauchen weniger Speicher; Antworten bleiben gleich.</translation>
    </message>
    <message>
        <source>Stays in memory even when unused for a long time, so it can answer right away.</source>
        <translation>Bleibt auch lange unbenutzt im Speicher, damit es sofort antworten kann.</translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation>Wählen …</translation>
    </message>
    <message>
        <source>A file or folder of drafting heads, where they are not in the model&apos;s own files. {heads}</source>
        <translation>Datei oder Ordner mit Entwurfsköpfen, wo sie nicht in den Dateien des Modells sind. {heads}</translation>
    </message>
    <message>
        <source>Picture part</source>
        <translation>Bildteil</translation>
    </message>
    <message>
        <source>The file with which a GGUF model sees pictures (mmproj), where it is not beside the model.</source>
        <translation>Die Datei, mit der ein GGUF-Modell Bilder sieht (mmproj), wenn sie nicht neben dem Modell liegt.</translation>
    </message>
    <message>
        <source>Beside the model</source>
        <translation>Neben dem Modell</translation>
    </message>
    <message>
        <source>A second, much smaller model of the same family, which can guess in place of drafting heads: a file, a folder, or owner/name on Hugging Face.</source>
        <translation>Ein zweites, viel kleineres Modell derselben Familie, das statt der Entwurfsköpfe raten kann: Datei, Ordner oder Besitzer/Name bei Hugging Face.</translation>
    </message>
    <message>
        <source>Precision</source>
        <translation>Genauigkeit</translation>
    </message>
    <message>
        <source>Number format</source>
        <translation>Zahlenformat</translation>
    </message>
    <message>
        <source>Chat memory</source>
        <translation>Speicher des Chats</translation>
    </message>
    <message>
        <source>Drafting head memory</source>
        <translation>Speicher der Entwurfsköpfe</translation>
    </message>
    <message>
        <source>Keep in memory when idle</source>
        <translation>Auch unbenutzt im Speicher behalten</translation>
    </message>
    <message>
        <source>Included with the model</source>
        <translation>Im Modell enthalten</translation>
    </message>
    <message>
        <source>Waiting for the current answer to finish</source>
        <translation>Beginnt nach der Antwort, die gerade geschrieben wird</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>Modell</translation>
    </message>
    <message>
        <source>Load this model; it answers from then on</source>
        <translation>Dieses Modell laden; von da an antwortet es</translation>
    </message>
    <message>
        <source>Close this card and change nothing</source>
        <translation>Diese Karte schließen und nichts ändern</translation>
    </message>
    <message>
        <source>Choose another…</source>
        <translation>Anderes wählen …</translation>
    </message>
    <message>
        <source>Open another file or folder</source>
        <translation>Eine andere Datei oder einen anderen Ordner öffnen</translation>
    </message>
    <message>
        <source>Load anyway</source>
        <translation>Trotzdem laden</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut versuchen</translation>
    </message>
    <message>
        <source>Memory for the model itself, for a chat, and to work in. It grows as a chat gets longer.</source>
        <translation>Arbeitsspeicher für das Modell selbst, für einen Chat und zum Rechnen. Er wächst, wenn ein Chat länger wird.</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>{parameters} Bits say how precisely each is stored: fewer make it smaller and a little less exact. GGUF, MLX and Safetensors are kinds of files.</source>
        <translation>{parameters} Bits sagen, wie genau jede gespeichert ist: Weniger machen es kleiner und etwas ungenauer. GGUF, MLX und Safetensors sind Arten von Dateien.</translation>
    </message>
    <message>
        <source>The format says how the numbers of the model are rounded. Q4, IQ4 or mxfp4: to about 4 bits. K, IQ, fp, _0, _1: ways to round. XS, S, M, L: from smallest to largest. bfloat16, float16: 16 bits each. A model can have parts in several formats.</source>
        <translation>Das Format sagt, wie die Zahlen des Modells gerundet sind. Q4, IQ4 oder mxfp4: auf etwa 4 Bits. K, IQ, fp, _0, _1: Arten zu runden. XS, S, M, L: von der kleinsten zur größten. bfloat16, float16: je 16 Bits. Ein Modell kann Teile in mehreren Formaten haben.</translation>
    </message>
    <message>
        <source>More about this model</source>
        <translation>Mehr über dieses Modell</translation>
    </message>
    <message>
        <source>No model is loaded</source>
        <translation>Kein Modell ist geladen</translation>
    </message>
    <message>
        <source>Hide Details</source>
        <translation>Details ausblenden</translation>
    </message>
    <message>
        <source>{size} on disk</source>
        <translation>{size} auf der Platte</translation>
    </message>
    <message>
        <source>sees pictures</source>
        <translation>sieht Bilder</translation>
    </message>
    <message>
        <source>Needs {needed} of {usable} memory</source>
        <translation>Braucht {needed} von {usable} Arbeitsspeicher</translation>
    </message>
    <message>
        <source>Needs {short} for a chat of {tokens:,} tokens ({parts}), {longest} for the longest. Fits in {usable}.</source>
        <translation>Braucht {short} für einen Chat mit {tokens:,} Tokens ({parts}), {longest} für den längsten. Passt in {usable}.</translation>
    </message>
    <message>
        <source>Model family: {words}</source>
        <translation>Modellfamilie: {words}</translation>
    </message>
    <message>
        <source>Format: {words}</source>
        <translation>Format: {words}</translation>
    </message>
    <message>
        <source>Longest chat: {words}</source>
        <translation>Längster Chat: {words}</translation>
    </message>
    <message>
        <source>Memory: {words}</source>
        <translation>Speicher: {words}</translation>
    </message>
    <message>
        <source>Pictures: {words}</source>
        <translation>Bilder: {words}</translation>
    </message>
    <message>
        <source>This version cannot guess from there.</source>
        <translation>Damit kann diese Version nicht raten.</translation>
    </message>
    <message>
        <source>This model has no drafting heads.</source>
        <translation>Dieses Modell hat keine Entwurfsköpfe.</translation>
    </message>
    <message>
        <source>No draft model is chosen: choose one in the model&apos;s load options.</source>
        <translation>Kein Entwurfsmodell gewählt: In den Ladeoptionen des Modells eines wählen.</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>Kein Modell ist geladen.</translation>
    </message>
    <message numerus="yes">
        <source>Guessing {n} tokens ahead until now. From here on: {what}</source>
        <comment>Guessing 1 token ahead until now. From here on: {what}</comment>
        <translation>
            <numerusform>Riet bisher 1 Token voraus. Ab hier: {what}</numerusform>
            <numerusform>Riet bisher {n} Tokens voraus. Ab hier: {what}</numerusform>
        </translation>
    </message>
    <message>
        <source>Auto: guesses ahead where it helps.</source>
        <translation>Auto: rät voraus, wo es nützt.</translation>
    </message>
    <message>
        <source>Auto would not guess: {why}.</source>
        <translation>Auto würde nicht raten: {why}.</translation>
    </message>
    <message>
        <source>Off: drafting is switched off for this chat.</source>
        <translation>Aus: Für diesen Chat sind Entwürfe ausgeschaltet.</translation>
    </message>
    <message>
        <source>Off: {why}</source>
        <translation>Aus: {why}</translation>
    </message>
    <message>
        <source>, the most this model can</source>
        <translation>, mehr kann dieses Modell nicht</translation>
    </message>
    <message numerus="yes">
        <source>Guesses {n} tokens ahead{limit}.</source>
        <comment>Guesses 1 token ahead{limit}.</comment>
        <translation>
            <numerusform>Rät 1 Token voraus{limit}.</numerusform>
            <numerusform>Rät {n} Tokens voraus{limit}.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>From here on {n} tokens ahead{limit}.</source>
        <comment>From here on 1 token ahead{limit}.</comment>
        <translation>
            <numerusform>Ab hier 1 Token voraus{limit}.</numerusform>
            <numerusform>Ab hier {n} Tokens voraus{limit}.</numerusform>
        </translation>
    </message>
    <message>
        <source>Auto would choose the same.</source>
        <translation>Auto würde dasselbe wählen.</translation>
    </message>
    <message>
        <source>Auto would choose {auto}.</source>
        <translation>Auto würde {auto} wählen.</translation>
    </message>
    <message>
        <source>The seed is locked. Click to use another one for every answer</source>
        <translation>Der Startwert ist festgehalten. Ein Klick nimmt für jede Antwort einen anderen</translation>
    </message>
    <message>
        <source>Lock the seed of the last answer, so that answers can be repeated</source>
        <translation>Den Startwert der letzten Antwort festhalten, damit sich Antworten wiederholen lassen</translation>
    </message>
    <message>
        <source>Higher: more varied and surprising answers. Lower: more predictable ones; 0 always takes the most likely next word.</source>
        <translation>Höher: abwechslungsreichere, überraschendere Antworten. Niedriger: berechenbarere; 0 nimmt immer das wahrscheinlichste nächste Wort.</translation>
    </message>
    <message>
        <source>The model chooses among this many of the most likely next tokens. Higher: more varied. Lower: more predictable. Off: among all.</source>
        <translation>Das Modell wählt unter so vielen der wahrscheinlichsten nächsten Tokens. Höher: abwechslungsreicher. Niedriger: berechenbarer. Aus: unter allen.</translation>
    </message>
    <message>
        <source>The model chooses among the most likely tokens that together have this much of the chance; 0.9 leaves out the unlikeliest tenth. Higher: more varied. Lower: more predictable. Off: among all.</source>
        <translation>Das Modell wählt unter den wahrscheinlichsten Tokens, die zusammen diesen Anteil der Chancen haben; 0,9 lässt das unwahrscheinlichste Zehntel weg. Höher: abwechslungsreicher. Niedriger: berechenbarer. Aus: unter allen.</translation>
    </message>
    <message>
        <source>Leaves out tokens whose chance is below this share of the likeliest one&apos;s. Higher: more predictable. Lower: more varied. Off: none is left out.</source>
        <translation>Lässt Tokens weg, deren Chance unter diesem Anteil der des wahrscheinlichsten liegt. Höher: berechenbarer. Niedriger: abwechslungsreicher. Aus: Keines wird weggelassen.</translation>
    </message>
    <message>
        <source>Higher: fewer repetitions of words in the chat, also of your own. Below 1: more of them. Off: no difference.</source>
        <translation>Höher: weniger Wiederholungen von Wörtern des Chats, auch Ihrer eigenen. Unter 1: mehr davon. Aus: kein Unterschied.</translation>
    </message>
    <message>
        <source>Higher: the answer avoids words that it already has, so it moves on to new things. Below 0: it stays with them. Off: no difference.</source>
        <translation>Höher: Die Antwort meidet Wörter, die schon in ihr stehen, und kommt zu Neuem. Unter 0: Sie bleibt bei ihnen. Aus: kein Unterschied.</translation>
    </message>
    <message>
        <source>Higher: the answer avoids a word the more, the more often it has used it. Below 0: it prefers such words. Off: no difference.</source>
        <translation>Höher: Die Antwort meidet ein Wort umso mehr, je öfter es in ihr steht. Unter 0: Sie bevorzugt solche Wörter. Aus: kein Unterschied.</translation>
    </message>
    <message>
        <source>Repeated passages</source>
        <translation>Wiederholungen</translation>
    </message>
    <message>
        <source>Chance of obvious words</source>
        <translation>Chance naheliegender Wörter</translation>
    </message>
    <message>
        <source>Words with at least this chance, from 0 to 1, are obvious. The least likely of them can still be chosen.</source>
        <translation>Wörter mit mindestens dieser Chance, von 0 bis 1, gelten als naheliegend. Das unwahrscheinlichste von ihnen kann noch gewählt werden.</translation>
    </message>
    <message>
        <source>How the model chooses the next token. {token}</source>
        <translation>Wie das Modell das nächste Token wählt. {token}</translation>
    </message>
    <message>
        <source>Advanced sampling</source>
        <translation>Sampling: Weiteres</translation>
    </message>
    <message>
        <source>The longest answer, in tokens. {token}</source>
        <translation>Die längste Antwort, in Tokens. {token}</translation>
    </message>
    <message>
        <source>One per line</source>
        <translation>Einer je Zeile</translation>
    </message>
    <message>
        <source>Use what the model&apos;s makers recommend</source>
        <translation>Verwenden, was die Macher des Modells empfehlen</translation>
    </message>
    <message>
        <source>Model default</source>
        <translation>Wie das Modell</translation>
    </message>
    <message>
        <source>On</source>
        <translation>Ein</translation>
    </message>
    <message>
        <source>A setting that the model&apos;s makers have added; their page says what it does. A text, a number, true, false, or null. Empty: the model&apos;s default.</source>
        <translation>Eine Einstellung, die die Macher des Modells vorgesehen haben; ihre Seite sagt, was sie tut. Ein Text, eine Zahl, true, false oder null. Leer: wie das Modell.</translation>
    </message>
    <message>
        <source>The model in use does not have this setting.</source>
        <translation>Das aktuelle Modell hat diese Einstellung nicht.</translation>
    </message>
    <message>
        <source>Whether the model thinks in writing before it answers. That takes longer and helps with hard questions.</source>
        <translation>Ob das Modell schriftlich nachdenkt, bevor es antwortet. Das dauert länger und hilft bei schweren Fragen.</translation>
    </message>
    <message>
        <source>More settings of this model</source>
        <translation>Weitere Einstellungen dieses Modells</translation>
    </message>
    <message>
        <source>Off</source>
        <translation>Aus</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>Denken</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>Entwurfsmodell</translation>
    </message>
    <message>
        <source>Models (*.gguf *.safetensors)</source>
        <translation>Modelle (*.gguf *.safetensors)</translation>
    </message>
    <message>
        <source>Exact, unless that would noticeably slow things down.</source>
        <translation>Exakt, außer wenn das spürbar langsamer wäre.</translation>
    </message>
    <message>
        <source>What most models were made with; slow on M1 and M2.</source>
        <translation>Womit die meisten Modelle gemacht wurden; langsam auf M1 und M2.</translation>
    </message>
    <message>
        <source>Whether answers have exactly the same words with and without drafting.</source>
        <translation>Ob Antworten mit und ohne Entwürfe genau dieselben Wörter haben.</translation>
    </message>
    <message>
        <source>Choose: {name}</source>
        <translation>Auswählen: {name}</translation>
    </message>
    <message>
        <source>How the model is loaded. The defaults suit most models.</source>
        <translation>Wie das Modell geladen wird. Die Vorgaben passen für die meisten Modelle.</translation>
    </message>
    <message>
        <source>Load options</source>
        <translation>Ladeoptionen</translation>
    </message>
    <message>
        <source>The longest chat, in tokens. A shorter one takes less memory. {token}</source>
        <translation>Der längste Chat, in Tokens. Ein kürzerer braucht weniger Speicher. {token}</translation>
    </message>
    <message>
        <source>maximum</source>
        <translation>Maximum</translation>
    </message>
    <message>
        <source>None</source>
        <translation>Keines</translation>
    </message>
    <message>
        <source>File…</source>
        <translation>Datei …</translation>
    </message>
    <message>
        <source>Folder…</source>
        <translation>Ordner …</translation>
    </message>
    <message>
        <source>In effect: {what}.</source>
        <translation>Wirksam: {what}.</translation>
    </message>
    <message>
        <source>Custom</source>
        <translation>Eigene</translation>
    </message>
    <message>
        <source>Tokens ahead</source>
        <translation>Token voraus</translation>
    </message>
    <message>
        <source>Advanced</source>
        <translation>Erweitert</translation>
    </message>
    <message>
        <source>In effect</source>
        <translation>Wirksam</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>Tokens</source>
        <translation>Tokens</translation>
    </message>
    <message>
        <source>random</source>
        <comment>seed</comment>
        <translation>neu</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Startwert</translation>
    </message>
    <message>
        <source>“{text}” isn&apos;t a valid seed. Use a whole number from 0 to 2⁶⁴ − 1.</source>
        <translation>„{text}“ ist kein gültiger Startwert. Nehmen Sie eine ganze Zahl von 0 bis 2⁶⁴ − 1.</translation>
    </message>
    <message>
        <source>The number that random choices start from: the same seed, settings and messages give the same answer. Empty: another seed for every answer.</source>
        <translation>Die Zahl, von der zufällige Entscheidungen ausgehen: Derselbe Startwert, dieselben Einstellungen und Nachrichten ergeben dieselbe Antwort. Leer: für jede Antwort ein anderer.</translation>
    </message>
    <message>
        <source>The last answer used {last}.</source>
        <translation>Die letzte Antwort nutzte {last}.</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>Top k</source>
        <translation>Top k</translation>
    </message>
    <message>
        <source>Top p</source>
        <translation>Top p</translation>
    </message>
    <message>
        <source>Min p</source>
        <translation>Min p</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>Wiederholungsstrafe</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>Präsenzstrafe</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>Häufigkeitsstrafe</translation>
    </message>
    <message>
        <source>Higher: the answer repeats whole passages less. Off: no difference.</source>
        <translation>Höher: Die Antwort wiederholt ganze Passagen seltener. Aus: kein Unterschied.</translation>
    </message>
    <message>
        <source>Skip obvious words</source>
        <translation>Naheliegendes meiden</translation>
    </message>
    <message>
        <source>How often the likeliest words are skipped, to be more inventive. Off: never.</source>
        <translation>Wie oft die wahrscheinlichsten Wörter übergangen werden, um einfallsreicher zu sein. Aus: nie.</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>Sampling</translation>
    </message>
    <message>
        <source>Rarely changed settings: repetition, randomness, and where answers end.</source>
        <translation>Selten geänderte Einstellungen: Wiederholungen, Zufall, und wo Antworten enden.</translation>
    </message>
    <message>
        <source>Max tokens</source>
        <translation>Max. Tokens</translation>
    </message>
    <message>
        <source>no limit</source>
        <translation>kein Limit</translation>
    </message>
    <message>
        <source>An answer ends as soon as it would write one of these texts, such as a word or a symbol. One per line; \n is a line break.</source>
        <translation>Eine Antwort endet, sobald sie einen dieser Texte schreiben würde, etwa ein Wort oder ein Zeichen. Einer je Zeile; \n ist ein Zeilenumbruch.</translation>
    </message>
    <message>
        <source>Stop strings</source>
        <translation>Stopptexte</translation>
    </message>
    <message>
        <source>Reset to Model Defaults</source>
        <translation>Auf Modellwerte zurücksetzen</translation>
    </message>
    <message>
        <source>Gray values are the model&apos;s defaults.</source>
        <translation>Graue Werte sind die des Modells.</translation>
    </message>
    <message>
        <source>For example: Answer briefly, in plain words.</source>
        <translation>Zum Beispiel: Antworte kurz, in einfachen Worten.</translation>
    </message>
    <message>
        <source>Presets</source>
        <translation>Voreinstellungen</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>Voreinstellung</translation>
    </message>
    <message>
        <source>Rename this preset</source>
        <translation>Diese Voreinstellung umbenennen</translation>
    </message>
    <message>
        <source>Delete this preset</source>
        <translation>Diese Voreinstellung löschen</translation>
    </message>
    <message>
        <source>Name of a new preset</source>
        <translation>Name einer neuen Voreinstellung</translation>
    </message>
    <message>
        <source>Name</source>
        <translation>Name</translation>
    </message>
    <message>
        <source>Parameters</source>
        <translation>Parameter</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>Größe</translation>
    </message>
    <message>
        <source>Drafting</source>
        <comment>whether a model has drafting heads, as the title of a column</comment>
        <translation>Entwürfe</translation>
    </message>
    <message>
        <source>About</source>
        <translation>Info</translation>
    </message>
    <message>
        <source>Yes</source>
        <translation>Ja</translation>
    </message>
    <message>
        <source>No</source>
        <translation>Nein</translation>
    </message>
    <message>
        <source>in use</source>
        <translation>in Gebrauch</translation>
    </message>
    <message>
        <source>Choosing a preset gives this chat its settings.</source>
        <translation>Wer eine Voreinstellung wählt, gibt diesem Chat ihre Einstellungen.</translation>
    </message>
    <message>
        <source>A name under which this chat&apos;s settings are saved.</source>
        <translation>Ein Name, unter dem die Einstellungen dieses Chats gesichert werden.</translation>
    </message>
    <message>
        <source>Save As</source>
        <translation>Sichern als</translation>
    </message>
    <message>
        <source>Save this chat&apos;s settings as a preset</source>
        <translation>Die Einstellungen dieses Chats als Voreinstellung sichern</translation>
    </message>
    <message>
        <source>Presets are saved chat settings you can reuse in other chats.</source>
        <translation>Vorlagen sind gespeicherte Einstellungen eines Chats, die Sie in anderen wieder verwenden können.</translation>
    </message>
    <message>
        <source>Update the preset with this chat&apos;s settings</source>
        <translation>Die Vorlage mit den Einstellungen dieses Chats aktualisieren</translation>
    </message>
    <message>
        <source>Use as Defaults</source>
        <translation>Als Standard verwenden</translation>
    </message>
    <message>
        <source>New chats start with the settings of this chat</source>
        <translation>Neue Chats beginnen mit den Einstellungen dieses Chats</translation>
    </message>
    <message>
        <source>{name} (changed)</source>
        <translation>{name} (geändert)</translation>
    </message>
    <message>
        <source>Save Changes to “{name}”</source>
        <translation>Änderungen an „{name}“ sichern</translation>
    </message>
    <message>
        <source>Choose a preset</source>
        <translation>Auswählen</translation>
    </message>
    <message>
        <source>No presets yet</source>
        <translation>Noch keine</translation>
    </message>
    <message>
        <source>“{name}” is replaced.</source>
        <translation>„{name}“ ist ersetzt.</translation>
    </message>
    <message>
        <source>Another preset has this name</source>
        <translation>Eine andere Voreinstellung heißt so</translation>
    </message>
    <message>
        <source>Instructions the model follows in every answer, such as a role or tone.</source>
        <translation>Anweisungen, denen das Modell in jeder Antwort folgt, etwa eine Rolle oder ein Ton.</translation>
    </message>
    <message>
        <source>Change how the model is loaded: memory, longest chat, drafting</source>
        <translation>Ändern, wie das Modell geladen wird: Speicher, längster Chat, Entwürfe</translation>
    </message>
    <message>
        <source>The model that answers in this chat.</source>
        <translation>Das Modell, das in diesem Chat antwortet.</translation>
    </message>
    <message>
        <source>Replace</source>
        <translation>Ersetzen</translation>
    </message>
    <message>
        <source>Load Options…</source>
        <translation>Ladeoptionen …</translation>
    </message>
    <message>
        <source>Chat Settings</source>
        <translation>Chat-Einstellungen</translation>
    </message>
    <message>
        <source>Hide this panel</source>
        <translation>Diese Leiste ausblenden</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>Systemprompt</translation>
    </message>
    <message>
        <source>System</source>
        <translation>Wie das System</translation>
    </message>
    <message>
        <source>Narrow</source>
        <translation>Schmal</translation>
    </message>
    <message>
        <source>Default</source>
        <translation>Normal</translation>
    </message>
    <message>
        <source>Wide</source>
        <translation>Breit</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Farben</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>Sprache</translation>
    </message>
    <message>
        <source>Smaller</source>
        <translation>Kleiner</translation>
    </message>
    <message>
        <source>Larger</source>
        <translation>Größer</translation>
    </message>
    <message>
        <source>Text width</source>
        <translation>Textbreite</translation>
    </message>
    <message>
        <source>Highlight drafted words</source>
        <translation>Entworfene Wörter nach der Tiefe ihres Entwurfs tönen</translation>
    </message>
    <message>
        <source>Notify me when a long answer finishes in the background</source>
        <translation>Melden, wenn eine lange Antwort endet, während ich anderswo bin</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>Textgröße</translation>
    </message>
    <message>
        <source>Full width</source>
        <translation>Volle Breite</translation>
    </message>
    <message>
        <source>Default text size</source>
        <translation>Standardtextgröße</translation>
    </message>
    <message>
        <source>New chats start with these settings. Existing chats keep their own.</source>
        <translation>Neue Chats beginnen mit diesen Einstellungen. Bestehende Chats behalten ihre eigenen.</translation>
    </message>
    <message>
        <source>Number that programs need to find the server; can be changed while it is off</source>
        <translation>Zahl, unter der Programme den Server finden; änderbar, solange er aus ist</translation>
    </message>
    <message>
        <source>Programs must show this key; can be changed while the server is off</source>
        <translation>Programme müssen diesen Schlüssel zeigen; änderbar, solange der Server aus ist</translation>
    </message>
    <message>
        <source>General</source>
        <translation>Allgemein</translation>
    </message>
    <message>
        <source>Server</source>
        <translation>Server</translation>
    </message>
    <message>
        <source>Load the last model when Headstart starts</source>
        <translation>Beim Start von Headstart das zuletzt benutzte Modell laden</translation>
    </message>
    <message>
        <source>Let the model name new chats</source>
        <translation>Neue Chats vom Modell benennen lassen</translation>
    </message>
    <message>
        <source>Takes effect after a restart.</source>
        <translation>Wirksam nach einem Neustart.</translation>
    </message>
    <message>
        <source>Text size {percent}</source>
        <translation>Textgröße {percent}</translation>
    </message>
    <message>
        <source>Unload an idle model</source>
        <translation>Unbenutztes Modell freigeben</translation>
    </message>
    <message>
        <source>Delete All</source>
        <translation>Alle löschen</translation>
    </message>
    <message>
        <source>Your next message loads it again.</source>
        <translation>Die nächste Frage lädt es wieder.</translation>
    </message>
    <message>
        <source>Keep chats ready on disk</source>
        <translation>Aufheben, was Modelle von Chats gelesen haben</translation>
    </message>
    <message>
        <source>Programs made for OpenAI&apos;s or Anthropic&apos;s interface can ask the model that is loaded here; those for OpenAI&apos;s want /v1 after the address. They can&apos;t read the chats of this window.</source>
        <translation>Programme für die Schnittstelle von OpenAI oder Anthropic können das hier geladene Modell fragen; solche für OpenAI brauchen /v1 hinter der Adresse. Die Chats dieses Fensters können sie nicht lesen.</translation>
    </message>
    <message>
        <source>Instructions the model follows in every answer of new chats, such as a role or tone.</source>
        <translation>Anweisungen, denen das Modell in jeder Antwort neuer Chats folgt, etwa eine Rolle oder ein Ton.</translation>
    </message>
    <message>
        <source>Delete everything stored of chats</source>
        <translation>Alles löschen, was von Chats aufgehoben ist</translation>
    </message>
    <message>
        <source>Using {size} now.</source>
        <translation>Die Dateien enthalten jetzt {size}.</translation>
    </message>
    <message>
        <source>Nothing is stored now.</source>
        <translation>In Dateien ist jetzt nichts aufgehoben.</translation>
    </message>
    <message>
        <source>Let other programs on this computer use the model</source>
        <translation>Andere Programme auf diesem Computer dürfen das Modell benutzen</translation>
    </message>
    <message>
        <source>Port</source>
        <translation>Port</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>Schlüssel</translation>
    </message>
    <message>
        <source>not needed</source>
        <translation>nicht nötig</translation>
    </message>
    <message>
        <source>Copy the address</source>
        <translation>Adresse kopieren</translation>
    </message>
    <message>
        <source>No model is loaded: requests are refused.</source>
        <translation>Kein Modell ist geladen: Anfragen werden abgelehnt.</translation>
    </message>
    <message>
        <source>Model: {name}</source>
        <translation>Modell: {name}</translation>
    </message>
    <message numerus="yes">
        <source>Model: {name} · {n} requests · {speed:.0f} tok/s</source>
        <comment>Model: {name} · 1 request · {speed:.0f} tok/s</comment>
        <translation>
            <numerusform>Modell: {name} · 1 Anfrage · {speed:.0f} Tok/s</numerusform>
            <numerusform>Modell: {name} · {n} Anfragen · {speed:.0f} Tok/s</numerusform>
        </translation>
    </message>
    <message>
        <source>Never</source>
        <translation>Nie</translation>
    </message>
    <message numerus="yes">
        <source>After {n} minutes</source>
        <comment>After 1 minute</comment>
        <translation>
            <numerusform>Nach 1 Minute</numerusform>
            <numerusform>Nach {n} Minuten</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>After {n} hours</source>
        <comment>After 1 hour</comment>
        <translation>
            <numerusform>Nach 1 Stunde</numerusform>
            <numerusform>Nach {n} Stunden</numerusform>
        </translation>
    </message>
    <message>
        <source>System prompt of new chats</source>
        <translation>Systemprompt neuer Chats</translation>
    </message>
    <message>
        <source>Restore Defaults</source>
        <translation>Zurück zu den Standardwerten von Headstart</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Erscheinungsbild</translation>
    </message>
    <message>
        <source>Stores what a model has read, so that chats continue at once after a restart. Only you can read these files. Takes effect the next time a model loads.</source>
        <translation>Speichert, was ein Modell gelesen hat, damit Chats nach einem Neustart sofort weitergehen. Nur du kannst diese Dateien lesen. Gilt, wenn das nächste Mal ein Modell geladen wird.</translation>
    </message>
    <message>
        <source>Title of the chat</source>
        <translation>Titel des Chats</translation>
    </message>
    <message>
        <source>Name of the folder</source>
        <translation>Name des Ordners</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message numerus="yes">
        <source>Restore {n:,} Chats</source>
        <comment>Restore</comment>
        <translation>
            <numerusform>Wiederherstellen</numerusform>
            <numerusform>{n:,} Chats wiederherstellen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Delete {n:,} Chats for Good</source>
        <comment>Delete for Good</comment>
        <translation>
            <numerusform>Endgültig löschen</numerusform>
            <numerusform>{n:,} Chats endgültig löschen</numerusform>
        </translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>Umbenennen</translation>
    </message>
    <message numerus="yes">
        <source>Unpin {n:,} Chats</source>
        <comment>Unpin</comment>
        <translation>
            <numerusform>Nicht mehr anheften</numerusform>
            <numerusform>{n:,} Chats nicht mehr anheften</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Pin {n:,} Chats</source>
        <comment>Pin</comment>
        <translation>
            <numerusform>Anheften</numerusform>
            <numerusform>{n:,} Chats anheften</numerusform>
        </translation>
    </message>
    <message>
        <source>Duplicate</source>
        <translation>Duplizieren</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>Exportieren …</translation>
    </message>
    <message numerus="yes">
        <source>Delete {n:,} Chats</source>
        <comment>Delete</comment>
        <translation>
            <numerusform>Löschen</numerusform>
            <numerusform>{n:,} Chats löschen</numerusform>
        </translation>
    </message>
    <message>
        <source>Move to Folder</source>
        <translation>In Ordner bewegen</translation>
    </message>
    <message>
        <source>Out of Its Folder</source>
        <translation>Aus dem Ordner nehmen</translation>
    </message>
    <message>
        <source>As Markdown…</source>
        <translation>Als Markdown …</translation>
    </message>
    <message>
        <source>As JSON with Everything…</source>
        <translation>Als JSON mit allem …</translation>
    </message>
    <message>
        <source>Remove Folder, Keep Its Chats</source>
        <translation>Ordner entfernen, Chats behalten</translation>
    </message>
    <message>
        <source>Remove Folder</source>
        <translation>Ordner entfernen</translation>
    </message>
    <message numerus="yes">
        <source>Delete Its {n:,} Chats</source>
        <comment>Delete Its 1 Chat</comment>
        <translation>
            <numerusform>Den Chat darin löschen</numerusform>
            <numerusform>Die {n:,} Chats darin löschen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{n:,} chats</source>
        <comment>1 chat</comment>
        <translation>
            <numerusform>1 Chat</numerusform>
            <numerusform>{n:,} Chats</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Folder, open, {n:,} chats</source>
        <comment>Folder, open, 1 chat</comment>
        <translation>
            <numerusform>Ordner, aufgeklappt, 1 Chat</numerusform>
            <numerusform>Ordner, aufgeklappt, {n:,} Chats</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Folder, closed, {n:,} chats</source>
        <comment>Folder, closed, 1 chat</comment>
        <translation>
            <numerusform>Ordner, zugeklappt, 1 Chat</numerusform>
            <numerusform>Ordner, zugeklappt, {n:,} Chats</numerusform>
        </translation>
    </message>
    <message>
        <source>In folder {name}</source>
        <translation>Im Ordner {name}</translation>
    </message>
    <message>
        <source>Search</source>
        <translation>Suchen</translation>
    </message>
    <message>
        <source>Search in chats</source>
        <translation>In Chats suchen</translation>
    </message>
    <message>
        <source>Back to Chats</source>
        <translation>Zurück zu den Chats</translation>
    </message>
    <message>
        <source>Empty Trash…</source>
        <translation>Papierkorb leeren …</translation>
    </message>
    <message>
        <source>The Trash is empty. Deleted chats stay here for 30 days.</source>
        <translation>Der Papierkorb ist leer. Gelöschte Chats bleiben 30 Tage hier.</translation>
    </message>
    <message>
        <source>Nothing found in titles or messages.</source>
        <translation>Weder in Titeln noch in Nachrichten gefunden.</translation>
    </message>
    <message>
        <source>Your chats will be listed here.</source>
        <translation>Hier werden die Chats aufgeführt.</translation>
    </message>
    <message numerus="yes">
        <source>Delete {n:,} chats for good?</source>
        <comment>Delete 1 chat for good?</comment>
        <translation>
            <numerusform>1 Chat endgültig löschen?</numerusform>
            <numerusform>{n:,} Chats endgültig löschen?</numerusform>
        </translation>
    </message>
    <message>
        <source>Empty Trash</source>
        <translation>Papierkorb leeren</translation>
    </message>
    <message>
        <source>This cannot be undone.</source>
        <translation>Das lässt sich nicht widerrufen.</translation>
    </message>
    <message>
        <source>Downloading: {done}</source>
        <translation>Herunterladen: {done}</translation>
    </message>
    <message>
        <source>This message cannot be shown as it should be. Its text:</source>
        <translation>Diese Nachricht lässt sich nicht wie vorgesehen anzeigen. Ihr Text:</translation>
    </message>
    <message>
        <source>Why it ended</source>
        <translation>Warum sie endete</translation>
    </message>
    <message>
        <source>Code, {language}</source>
        <translation>Code, {language}</translation>
    </message>
    <message>
        <source>plain</source>
        <translation>ohne Sprache</translation>
    </message>
    <message>
        <source>Copy code</source>
        <translation>Code kopieren</translation>
    </message>
    <message>
        <source>Find in this chat</source>
        <translation>In diesem Chat suchen</translation>
    </message>
    <message>
        <source>Previous match</source>
        <translation>Vorheriger Treffer</translation>
    </message>
    <message>
        <source>Next match</source>
        <translation>Nächster Treffer</translation>
    </message>
    <message>
        <source>{current} of {total}</source>
        <translation>{current} von {total}</translation>
    </message>
    <message>
        <source>no match</source>
        <translation>kein Treffer</translation>
    </message>
    <message>
        <source>Image: {what}</source>
        <translation>Bild: {what}</translation>
    </message>
    <message>
        <source>Figures of this answer</source>
        <translation>Werte dieser Antwort</translation>
    </message>
    <message>
        <source>Figures: {figures}</source>
        <translation>Werte: {figures}</translation>
    </message>
    <message>
        <source>Previous version</source>
        <translation>Vorherige Fassung</translation>
    </message>
    <message>
        <source>Next version</source>
        <translation>Nächste Fassung</translation>
    </message>
    <message>
        <source>More</source>
        <translation>Mehr</translation>
    </message>
    <message>
        <source>Written without drafting</source>
        <translation>Ohne Entwürfe geschrieben</translation>
    </message>
    <message numerus="yes">
        <source>Guessed {n} tokens ahead</source>
        <comment>Guessed 1 token ahead</comment>
        <translation>
            <numerusform>1 Token vorausgeraten</numerusform>
            <numerusform>{n} Tokens vorausgeraten</numerusform>
        </translation>
    </message>
    <message>
        <source>Guessed {mean:.1f} tokens ahead, {deepest} at most</source>
        <translation>{mean:.1f} Tokens vorausgeraten, höchstens {deepest}</translation>
    </message>
    <message>
        <source>{speed:.1f} tokens per second</source>
        <translation>{speed:.1f} Tokens je Sekunde</translation>
    </message>
    <message>
        <source>{mean:.1f} tokens per step (without drafting: 1)</source>
        <translation>{mean:.1f} Tokens je Schritt (ohne Entwürfe: 1)</translation>
    </message>
    <message>
        <source>Guess {place} of a step: {accepted:,} of {drafted:,} right ({share})</source>
        <translation>Vermutung {place} eines Schritts: {accepted:,} von {drafted:,} richtig ({share})</translation>
    </message>
    <message>
        <source>{seconds:.2f} s to the first token</source>
        <translation>{seconds:.2f} s bis zum ersten Token</translation>
    </message>
    <message numerus="yes">
        <source>Read {n:,} tokens</source>
        <comment>Read 1 token</comment>
        <translation>
            <numerusform>{n:,} Token gelesen</numerusform>
            <numerusform>{n:,} Tokens gelesen</numerusform>
        </translation>
    </message>
    <message>
        <source>{reused:,} of them remembered from before</source>
        <translation>{reused:,} davon noch von vorher im Gedächtnis</translation>
    </message>
    <message>
        <source>{rows:,} of them read once more, for drafting ({share} of reading time)</source>
        <translation>{rows:,} davon für Entwürfe noch einmal gelesen ({share} der Lesezeit)</translation>
    </message>
    <message>
        <source>Edit and send again</source>
        <translation>Bearbeiten und noch einmal senden</translation>
    </message>
    <message>
        <source>Continue this answer</source>
        <translation>Diese Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Continue. The oldest messages stay here but are no longer read</source>
        <translation>Weitermachen; die ältesten Beiträge bleiben hier stehen, werden aber nicht mehr gelesen</translation>
    </message>
    <message>
        <source>Continue without the oldest messages</source>
        <translation>Ohne die ältesten Beiträge weitermachen</translation>
    </message>
    <message>
        <source>Edit this answer</source>
        <translation>Diese Antwort bearbeiten</translation>
    </message>
    <message>
        <source>Version {version} of {versions}</source>
        <translation>Fassung {version} von {versions}</translation>
    </message>
    <message>
        <source>Return: {verb}. Shift-Return: a new line.</source>
        <translation>Eingabe: {verb}. Umschalt-Eingabe: neue Zeile.</translation>
    </message>
    <message>
        <source>With {names}</source>
        <translation>Mit {names}</translation>
    </message>
    <message>
        <source>The model no longer reads the messages above: the context was full.</source>
        <translation>Was darüber steht, wird nicht mehr gelesen: Der Kontext war voll.</translation>
    </message>
    <message>
        <source>You</source>
        <translation>Du</translation>
    </message>
    <message>
        <source>Answer</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Edit your message</source>
        <translation>Nachricht bearbeiten</translation>
    </message>
    <message>
        <source>Send again</source>
        <translation>Noch einmal senden</translation>
    </message>
    <message>
        <source>Edit the answer</source>
        <translation>Die Antwort bearbeiten</translation>
    </message>
    <message>
        <source>Keep</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>Copy with Formatting Marks (Markdown)</source>
        <translation>Mit Formatierungszeichen kopieren (Markdown)</translation>
    </message>
    <message>
        <source>New Chat from Here</source>
        <translation>Neuer Chat ab hier</translation>
    </message>
    <message>
        <source>Delete Question and Answer</source>
        <translation>Frage und Antwort löschen</translation>
    </message>
    <message>
        <source>Thinking…</source>
        <translation>Denkt nach …</translation>
    </message>
    <message>
        <source>Thought</source>
        <translation>Nachgedacht</translation>
    </message>
    <message>
        <source>Thought for {seconds:.1f} s</source>
        <translation>{seconds:.1f} s nachgedacht</translation>
    </message>
    <message>
        <source>Thought for {minutes} min {seconds} s</source>
        <translation>{minutes} min {seconds} s nachgedacht</translation>
    </message>
    <message>
        <source>Guessed so many tokens ahead</source>
        <translation>So viele Tokens vorausgeraten</translation>
    </message>
    <message>
        <source>no color: not guessed</source>
        <translation>ungetönt: nicht geraten</translation>
    </message>
    <message>
        <source>{title} 1 to {deepest}: a deeper tint; {rest}</source>
        <translation>{title} 1 bis {deepest}: eine tiefere Tönung; {rest}</translation>
    </message>
    <message>
        <source>Transcript</source>
        <translation>Verlauf</translation>
    </message>
    <message>
        <source>Model of this chat</source>
        <translation>Modell dieses Chats</translation>
    </message>
    <message>
        <source>Your message</source>
        <translation>Eigene Nachricht</translation>
    </message>
    <message>
        <source>Attachment {name}</source>
        <translation>Anhang {name}</translation>
    </message>
    <message>
        <source>Show all of {size}</source>
        <translation>Alle {size} zeigen</translation>
    </message>
    <message>
        <source>… {size} more: Copy and Edit take all.</source>
        <translation>… noch {size}: „Kopieren“ und „Bearbeiten“ nehmen alles.</translation>
    </message>
    <message>
        <source>{letters:,} characters</source>
        <translation>{letters:,} Zeichen</translation>
    </message>
    <message>
        <source>{size:.1f} MB</source>
        <translation>{size:.1f} MB</translation>
    </message>
    <message>
        <source>{size:.0f} kB</source>
        <translation>{size:.0f} kB</translation>
    </message>
    <message>
        <source>Back to the chat</source>
        <translation>Zurück zum Chat</translation>
    </message>
    <message>
        <source>Close the Drafting view</source>
        <translation>Entwurfsansicht schließen</translation>
    </message>
    <message>
        <source>No model is loaded: open one, then ask again.</source>
        <translation>Kein Modell ist geladen: eines öffnen, dann noch einmal fragen.</translation>
    </message>
    <message>
        <source>{path}: loading was stopped.</source>
        <translation>{path}: Das Laden wurde angehalten.</translation>
    </message>
    <message>
        <source>{old} was closed first: it and {new} do not fit into memory together.</source>
        <translation>{old} wurde zuerst geschlossen: Zusammen mit {new} passt es nicht in den Speicher.</translation>
    </message>
    <message>
        <source>Memory ran out. What was answered so far is kept. Close other programs, begin a new chat, or take a smaller model, then try again.</source>
        <translation>Der Arbeitsspeicher ist ausgegangen. Die Antwort bis hier ist gesichert. Schließen Sie andere Programme, beginnen Sie einen neuen Chat, oder nehmen Sie ein kleineres Modell; dann noch einmal.</translation>
    </message>
    <message>
        <source>Headstart made a mistake. What was answered so far is kept.</source>
        <translation>Headstart hat einen Fehler gemacht. Was bisher geantwortet wurde, bleibt erhalten.</translation>
    </message>
    <message>
        <source>{number:.3g}{unit}</source>
        <translation>{number:.3g}{unit}</translation>
    </message>
    <message>
        <source>branch</source>
        <comment>of a chat, behind its title</comment>
        <translation>Zweig</translation>
    </message>
    <message>
        <source>Drafting is switched off for this chat.</source>
        <translation>Für diesen Chat sind Entwürfe ausgeschaltet.</translation>
    </message>
    <message>
        <source>This model has no drafting heads; it runs without drafting.</source>
        <translation>Dieses Modell hat keine Entwurfsköpfe; es läuft ohne Entwürfe.</translation>
    </message>
    <message>
        <source>Drafting starts with the next message: the drafting heads have not read this chat yet.</source>
        <translation>Entwürfe beginnen mit der nächsten Nachricht: Die Entwurfsköpfe haben diesen Chat noch nicht gelesen.</translation>
    </message>
    <message>
        <source>Nothing repeats here: these words are new to the chat.</source>
        <translation>Hier wiederholt sich nichts: Diese Wörter sind neu im Chat.</translation>
    </message>
    <message>
        <source>No draft model was given when this model was loaded: load it with one.</source>
        <translation>Beim Laden dieses Modells wurde kein Entwurfsmodell angegeben: mit einem laden.</translation>
    </message>
    <message>
        <source>Nothing is drafted: {error}</source>
        <translation>Nichts wird entworfen: {error}</translation>
    </message>
    <message>
        <source>embedding</source>
        <translation>Embedding</translation>
    </message>
    <message>
        <source>linear attention</source>
        <translation>lineare Attention</translation>
    </message>
    <message>
        <source>short convolutions</source>
        <translation>kurze Faltungen</translation>
    </message>
    <message>
        <source>state spaces</source>
        <translation>Zustandsräume</translation>
    </message>
    <message>
        <source>mlp</source>
        <translation>MLP</translation>
    </message>
    <message>
        <source>experts</source>
        <translation>Experten</translation>
    </message>
    <message>
        <source>norms</source>
        <translation>Normen</translation>
    </message>
    <message>
        <source>output head</source>
        <translation>Ausgabekopf</translation>
    </message>
    <message>
        <source>other</source>
        <translation>Übriges</translation>
    </message>
    <message>
        <source>MTP head</source>
        <translation>MTP-Kopf</translation>
    </message>
    <message>
        <source>This computer has no Metal, Apple&apos;s way to use the graphics processor, so the model runs on the main processor. The model itself takes {size} there.</source>
        <translation>Dieser Computer hat kein Metal, Apples Zugang zum Grafikprozessor; daher läuft das Modell auf dem Hauptprozessor. Das Modell selbst belegt dort {size}.</translation>
    </message>
    <message>
        <source>The recommended sampling was ignored: {origin}: {error}</source>
        <translation>Das empfohlene Sampling wurde nicht übernommen: {origin}: {error}</translation>
    </message>
    <message>
        <source>The model&apos;s 8-bit numbers (fp8) are unpacked to 16 bits, {times:.1f} times their size in the file, because no graphics processor of a Mac computes with them. They are rounded by 0.2% at most. Without Metal they take 32 bits.</source>
        <translation>Die 8-Bit-Zahlen (fp8) des Modells werden auf 16 Bits entpackt, das {times:.1f}-Fache ihrer Größe in der Datei, weil kein Grafikprozessor eines Macs mit ihnen rechnet. Sie werden um höchstens 0,2 % gerundet. Ohne Metal brauchen sie 32 Bits.</translation>
    </message>
    <message>
        <source>{origin}: weight_block_size is {size}, which should be two counts above 0. Get the config again from where the weights come from.</source>
        <translation>{origin}: weight_block_size ist {size}, verlangt sind zwei Anzahlen über 0. Die Config noch einmal von dort holen, wo die Gewichte herkommen.</translation>
    </message>
    <message>
        <source>{file}: {name} is stored in fp8, but {why}. Get the file again.</source>
        <translation>{file}: {name} ist in fp8 gespeichert, aber {why}. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{file}: {tensor} is stored as {name}, which this version does not run. Take another quantisation of the model.</source>
        <translation>{file}: {tensor} ist als {name} gespeichert, was diese Version nicht ausführt. Eine andere Quantisierung des Modells nehmen.</translation>
    </message>
    <message>
        <source>{file}: {name} {shape} is stored as {type_name}, though it is no matrix. Get the file again.</source>
        <translation>{file}: {name} {shape} ist als {type_name} gespeichert, obwohl es keine Matrix ist. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{file}: {name} has the shape {shape} where the metadata ask for {rows} rows. Get the file again.</source>
        <translation>{file}: {name} hat die Form {shape}, die Metadaten verlangen {rows} Zeilen. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{file}: the rows of {name} {shape} do not divide by {of}. Get the file again.</source>
        <translation>{file}: {name} {shape} ist kein Stapel von {of} Zeilengruppen. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{stored} of the file ({name}) has to be unpacked and will use at least {values} of memory.</source>
        <translation>{stored} der Datei ({name}) müssen entpackt werden und belegen mindestens {values} Arbeitsspeicher.</translation>
    </message>
    <message>
        <source>{given}: drafting heads for a model of this family cannot be run yet. Open the model without them.</source>
        <translation>{given}: Entwurfsköpfe für ein Modell dieser Familie laufen noch nicht. Das Modell ohne sie öffnen.</translation>
    </message>
    <message>
        <source>The files hold drafting heads, but heads of this family cannot be run yet.</source>
        <translation>Die Dateien enthalten Entwurfsköpfe, aber Köpfe dieser Familie laufen noch nicht.</translation>
    </message>
    <message>
        <source>The drafting heads are in {name}, which is missing: download it too.</source>
        <translation>Die Entwurfsköpfe liegen in {name}, und das fehlt: auch herunterladen.</translation>
    </message>
    <message>
        <source>The drafting heads beside the model cannot be read: {damage}</source>
        <translation>Die Entwurfsköpfe beim Modell sind nicht lesbar: {damage}</translation>
    </message>
    <message>
        <source>{place}: no drafting heads in there. Give the file or folder of the heads.</source>
        <translation>{place}: Darin sind keine Entwurfsköpfe. Die Datei oder den Ordner der Köpfe angeben.</translation>
    </message>
    <message>
        <source>{misfit} Give the heads made for this model.</source>
        <translation>{misfit} Die Köpfe angeben, die für dieses Modell gemacht sind.</translation>
    </message>
    <message>
        <source>{place}: no such file or folder to take drafting heads from.</source>
        <translation>{place}: Es gibt keine solche Datei und keinen solchen Ordner mit Entwurfsköpfen.</translation>
    </message>
    <message>
        <source>The drafting heads in {origin} have an output matrix for fewer tokens, which is not used: drafts use the model&apos;s own.</source>
        <translation>Die Entwurfsköpfe in {origin} bringen einen Ausgabekopf für weniger Tokens mit, der nicht benutzt wird: Entwürfe wählt der des Modells.</translation>
    </message>
    <message>
        <source>The drafting heads in {origin} lack the tensor {name}, so they cannot be used.</source>
        <translation>Den Entwurfsköpfen in {origin} fehlt der Tensor {name}; sie lassen sich nicht verwenden.</translation>
    </message>
    <message>
        <source>This model was made with {promised} drafting heads; this copy of it has {used}.</source>
        <translation>Dieses Modell wurde mit {promised} Entwurfsköpfen gemacht; diese Kopie hat {used}.</translation>
    </message>
    <message>
        <source>This model was made with {heads}, but this copy of it has none ({sign}). Get a copy with heads, or give the heads of the original.</source>
        <translation>Zu diesem Modell gehören {heads}, doch in dieser Kopie fehlen sie ({sign}). Laden Sie eine Kopie mit Köpfen, oder geben Sie die Köpfe des Originals an.</translation>
    </message>
    <message>
        <source>This model was made with {heads} (nextn_predict_layers in {name}), but this copy of it has none (no nextn.* tensor). Get a copy with heads, or give a file that has them.</source>
        <translation>Zu diesem Modell gehören {heads} (nextn_predict_layers in {name}), doch in dieser Kopie fehlen sie (kein Tensor nextn.*). Laden Sie eine Kopie mit Köpfen, oder geben Sie eine Datei an, die sie hat.</translation>
    </message>
    <message>
        <source>The drafting heads in {origin} belong to another model: {tensor} is {shape} where this one needs {needed}.</source>
        <translation>Die Entwurfsköpfe in {origin} gehören zu einem anderen Modell: {tensor} ist {shape}, dieses braucht {needed}.</translation>
    </message>
    <message>
        <source>The drafting heads in {origin} have the tensor {tensor}, which this version has no place for.</source>
        <translation>Die Entwurfsköpfe in {origin} haben den Tensor {tensor}, für den diese Version keinen Platz hat.</translation>
    </message>
    <message>
        <source>{place}: heads are read from .safetensors or .gguf, or a folder.</source>
        <translation>{place}: Köpfe werden aus .safetensors oder .gguf gelesen, oder aus einem Ordner.</translation>
    </message>
    <message>
        <source>This model cannot take back wrong guesses, so it runs without drafting.</source>
        <translation>Dieses Modell kann falsch Geratenes nicht zurücknehmen und läuft deshalb ohne Entwürfe.</translation>
    </message>
    <message>
        <source>Chat memory stays in 16 bits: this model can have no other.</source>
        <translation>Das Chat-Gedächtnis bleibt bei 16 Bits: Dieses Modell kann kein anderes haben.</translation>
    </message>
    <message>
        <source>Chat memory stays in 16 bits: {told}.</source>
        <translation>Das Chat-Gedächtnis bleibt bei 16 Bits: {told}.</translation>
    </message>
    <message>
        <source>{origin}: the class that mlx-lm has for {module} needs a package that is not here. Take another model.</source>
        <translation>{origin}: Die Klasse, die mlx-lm für {module} hat, braucht ein Paket, das hier fehlt. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{origin}: is quantised in a way that this model does not support ({told}). Get it again.</source>
        <translation>{origin}: ist auf eine Weise gepackt, die es bei diesem Modell nicht gibt ({told}). Noch einmal holen.</translation>
    </message>
    <message>
        <source>it misses {name}</source>
        <translation>ihr fehlt {name}</translation>
    </message>
    <message>
        <source>{name} has the shape {shape}, where it wants {wanted}</source>
        <translation>{name} hat die Form {shape}, wo sie {wanted} will</translation>
    </message>
    <message>
        <source>it has no place for {names}</source>
        <translation>sie hat keinen Platz für {names}</translation>
    </message>
    <message>
        <source>{origin}: {name} holds {dtype} where {what} numbers belong. It may be packed without its scales: get the file again.</source>
        <translation>{origin}: {name} enthält {dtype}, wo {what} Zahlen hingehören. Vielleicht fehlen die Skalen dazu: die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>floating</source>
        <translation>gebrochene</translation>
    </message>
    <message>
        <source>whole</source>
        <translation>ganze</translation>
    </message>
    <message>
        <source>{origin}: the class that mlx-lm has for this architecture does not take these files ({told}). Either config and weights do not belong together, or this is a variant that mlx-lm does not run: get both again from one place, or take another model.</source>
        <translation>{origin}: Die Klasse, die mlx-lm für diese Architektur hat, nimmt diese Dateien nicht an ({told}). Entweder gehören Konfiguration und Gewichte nicht zusammen, oder dies ist eine Variante, die mlx-lm nicht ausführt: beides noch einmal von einer Stelle holen oder ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{origin}: asks for {key} {value}, which mlx-lm does not know for this architecture. Take another model.</source>
        <translation>{origin}: verlangt {key} {value}, was mlx-lm für diese Architektur nicht kennt. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>On this computer the chance of a token depends a little on how many tokens are computed at once: where two are almost equally likely, text with drafting may differ from text without it.</source>
        <translation>Auf diesem Computer hängt die Chance eines Tokens ein wenig davon ab, wie viele Tokens auf einmal berechnet werden: Wo zwei fast gleich wahrscheinlich sind, kann Text mit Entwürfen anders sein als ohne.</translation>
    </message>
    <message>
        <source>Whether text with drafting can differ from text without it on this computer is checked after an answer. Until then it may, where two tokens are almost equally likely.</source>
        <translation>Ob Text mit Entwürfen auf diesem Computer anders sein kann als ohne, wird nach einer Antwort geprüft. Bis dahin kann er es, wo zwei Tokens fast gleich wahrscheinlich sind.</translation>
    </message>
    <message>
        <source>Exact precision would make a step {percent:.0f}% slower on this computer, more than the {most:.0f}% accepted by default. So where two tokens are almost equally likely, text with drafting may differ from text without it, unless exact precision is chosen.</source>
        <translation>Genau gerechnet dauerte ein Schritt auf diesem Computer {percent:.0f} % länger, mehr als die {most:.0f} %, die sonst hingenommen werden. Wo zwei Tokens fast gleich wahrscheinlich sind, kann Text mit Entwürfen daher anders sein als ohne, außer Sie wählen die Präzision „Genau“.</translation>
    </message>
    <message>
        <source>Checking whether text with drafting can differ from text without it ended with an error and is repeated at the next load. Until then it may, where two tokens are almost equally likely. ({told})</source>
        <translation>Die Prüfung, ob Text mit Entwürfen vom Text ohne Entwürfe abweichen kann, endete mit einem Fehler und wird beim nächsten Laden wiederholt. Bis dahin kann er es, wo zwei Tokens fast gleich wahrscheinlich sind. ({told})</translation>
    </message>
    <message>
        <source>(Seen {where}.)</source>
        <translation>(Gesehen: {where}.)</translation>
    </message>
    <message>
        <source>{name}={value} is not possible: use {allowed}.</source>
        <translation>{name}={value} ist nicht möglich; erlaubt: {allowed}.</translation>
    </message>
    <message>
        <source>“{shown}” is not possible: use a text, a number, true, false or null.</source>
        <translation>„{shown}“ ist nicht möglich: Text, Zahl, true, false oder null angeben.</translation>
    </message>
    <message>
        <source>a path, or None</source>
        <translation>einen Pfad, oder None</translation>
    </message>
    <message>
        <source>8 or more, or None</source>
        <translation>8 oder mehr, oder None</translation>
    </message>
    <message>
        <source>0 or more, or None</source>
        <translation>0 oder mehr, oder None</translation>
    </message>
    <message>
        <source>0 or more</source>
        <translation>0 oder mehr</translation>
    </message>
    <message>
        <source>0 to 10</source>
        <translation>0 bis 10</translation>
    </message>
    <message>
        <source>0 (off) or more</source>
        <translation>0 (aus) oder mehr</translation>
    </message>
    <message>
        <source>0 to 1 (off)</source>
        <translation>0 bis 1 (aus)</translation>
    </message>
    <message>
        <source>0 (off) to 1</source>
        <translation>0 (aus) bis 1</translation>
    </message>
    <message>
        <source>0 to 1</source>
        <translation>0 bis 1</translation>
    </message>
    <message>
        <source>0 (off) to 100</source>
        <translation>0 (aus) bis 100</translation>
    </message>
    <message>
        <source>1 to 10</source>
        <translation>1 bis 10</translation>
    </message>
    <message>
        <source>1 or more</source>
        <translation>1 oder mehr</translation>
    </message>
    <message>
        <source>-1 (all) or more</source>
        <translation>-1 (alle) oder mehr</translation>
    </message>
    <message>
        <source>0 to 20, or None</source>
        <translation>0 bis 20 oder None</translation>
    </message>
    <message>
        <source>an object, or None</source>
        <translation>ein Objekt oder None</translation>
    </message>
    <message>
        <source>a text, or None</source>
        <translation>ein Text oder None</translation>
    </message>
    <message>
        <source>schema, regex, grammar: an answer can be bound to one of them only.</source>
        <translation>schema, regex, grammar: Eine Antwort kann nur an eines davon gebunden werden.</translation>
    </message>
    <message>
        <source>0.01 to 10</source>
        <translation>0,01 bis 10</translation>
    </message>
    <message>
        <source>-10 to 10</source>
        <translation>-10 bis 10</translation>
    </message>
    <message>
        <source>token ids of 0 or more, each with -1000 to 1000</source>
        <translation>Token-Nummern ab 0, jede mit -1000 bis 1000</translation>
    </message>
    <message>
        <source>0 to 2**64-1, or None</source>
        <translation>0 bis 2**64-1, oder None</translation>
    </message>
    <message>
        <source>256 or more</source>
        <translation>256 oder mehr</translation>
    </message>
    <message>
        <source>1 or more, or None</source>
        <translation>1 oder mehr, oder None</translation>
    </message>
    <message>
        <source>Memory ran out while answering; the conversation is kept. Close other programs or chats, begin a new chat, load the model with a shorter context, or take a smaller or more strongly quantised one. MLX says: {error}</source>
        <translation>Beim Antworten wurde der Speicher voll; das Gespräch bleibt erhalten. Andere Programme oder Chats schließen, einen neuen Chat beginnen, das Modell mit kürzerem Kontext laden oder ein kleineres oder stärker quantisiertes nehmen. MLX meldet: {error}</translation>
    </message>
    <message>
        <source>The model produced NaN or infinity at position {position}. Its weights may be damaged, or too large for 16-bit numbers: load the file again or use another one.</source>
        <translation>Das Modell ergab an Stelle {position} NaN oder unendlich. Seine Gewichte sind vielleicht beschädigt oder für 16-Bit-Zahlen zu groß: die Datei neu laden oder eine andere verwenden.</translation>
    </message>
    <message>
        <source>This model can&apos;t use tools: its chat template does not tell it of tools. Turn them off, or use another model.</source>
        <translation>Dieses Modell kann keine Werkzeuge benutzen: Seine Chat-Vorlage sagt ihm nichts von Werkzeugen. Schalte sie aus oder nimm ein anderes Modell.</translation>
    </message>
    <message>
        <source>Pictures are wanted as a list: images=[path].</source>
        <translation>Bilder werden als Liste erwartet: images=[Pfad].</translation>
    </message>
    <message>
        <source>There is no question to answer again: send one first.</source>
        <translation>Es gibt keine Frage, die noch einmal zu beantworten wäre: zuerst eine senden.</translation>
    </message>
    <message>
        <source>Message {index} is not a question of this conversation.</source>
        <translation>Nachricht {index} ist keine Frage dieses Gesprächs.</translation>
    </message>
    <message>
        <source>There is no answer to continue: send a question first.</source>
        <translation>Es gibt keine Antwort zum Fortsetzen: zuerst eine Frage senden.</translation>
    </message>
    <message>
        <source>A system message stands in the middle of the conversation. Only the first message can be one: leave it out, or set Session.system.</source>
        <translation>Mitten im Gespräch steht eine Systemnachricht. Nur die erste Nachricht kann eine sein: sie weglassen, oder Session.system setzen.</translation>
    </message>
    <message>
        <source>There is no older turn to drop: shorten the last message.</source>
        <translation>Es gibt nichts Älteres wegzulassen: die letzte Nachricht kürzen.</translation>
    </message>
    <message>
        <source>The message is empty: type a question.</source>
        <translation>Die Nachricht ist leer: eine Frage eingeben.</translation>
    </message>
    <message>
        <source>{origin}: the chat template makes nothing of this conversation. Replace the template.</source>
        <translation>{origin}: Die Chatvorlage macht aus diesem Gespräch nichts. Die Vorlage ersetzen.</translation>
    </message>
    <message>
        <source>The conversation has {count:,} tokens, the context holds {limit:,}. Shorten the message, let the oldest turns go, or start a new chat.</source>
        <translation>Das Gespräch hat {count:,} Tokens, der Kontext fasst {limit:,}. Die Nachricht kürzen, auf die ältesten Beiträge verzichten oder einen neuen Chat beginnen.</translation>
    </message>
    <message>
        <source>An answer is still running: stop it, or read it to its end.</source>
        <translation>Eine Antwort läuft noch: sie anhalten oder zu Ende lesen.</translation>
    </message>
    <message>
        <source>{hub_id}: no model can have this name. Check it.</source>
        <translation>{hub_id}: So kann kein Modell heißen. Den Namen prüfen.</translation>
    </message>
    <message>
        <source>{hub_id}: its owners ask you to accept their terms first. Open its page on the hub, accept them, sign in here with `hf auth login`, and try again.</source>
        <translation>{hub_id}: Die Eigentümer verlangen, dass zuerst ihre Bedingungen angenommen werden. Die Seite auf dem Hub öffnen, annehmen, sich hier mit `hf auth login` anmelden und noch einmal versuchen.</translation>
    </message>
    <message>
        <source>{hub_id}: there is no such model on the hub, or it is private. Check the name.</source>
        <translation>{hub_id}: Ein solches Modell gibt es auf dem Hub nicht, oder es ist privat. Den Namen prüfen.</translation>
    </message>
    <message>
        <source>{hub_id}: it has no such branch, tag or commit.</source>
        <translation>{hub_id}: Einen solchen Branch, Tag oder Commit gibt es nicht.</translation>
    </message>
    <message>
        <source>{hub_id}: the hub answered with error {status}. Try again in a while.</source>
        <translation>{hub_id}: Der Hub antwortete mit Fehler {status}. In einer Weile noch einmal versuchen.</translation>
    </message>
    <message>
        <source>{hub_id}: the hub is switched off here. Start again without HF_HUB_OFFLINE.</source>
        <translation>{hub_id}: Der Hub ist hier abgeschaltet. Ohne HF_HUB_OFFLINE neu starten.</translation>
    </message>
    <message>
        <source>{hub_id}: the disk is full. Make room on it, then resume: a download goes on where it stopped.</source>
        <translation>{hub_id}: Das Laufwerk ist voll. Platz schaffen, dann fortsetzen: Der Download macht weiter, wo er aufhörte.</translation>
    </message>
    <message>
        <source>{hub_id}: the hub&apos;s answer cannot be read. Try again in a while; in a hotel or an office, sign in to its network first.</source>
        <translation>{hub_id}: Die Antwort des Hubs ist nicht lesbar. In einer Weile noch einmal versuchen; in Hotel oder Büro zuerst im dortigen Netz anmelden.</translation>
    </message>
    <message>
        <source>{hub_id}: no connection to the hub. Check the network and try again: a download goes on where it stopped.</source>
        <translation>{hub_id}: keine Verbindung zum Hub. Das Netzwerk prüfen und noch einmal versuchen: Ein Download geht da weiter, wo er aufhörte.</translation>
    </message>
    <message>
        <source>{hub_id}: no connection to the hub. Check the network and try again.</source>
        <translation>{hub_id}: Keine Verbindung zum Hub. Netz prüfen und noch einmal versuchen.</translation>
    </message>
    <message>
        <source>The hub refuses the token that is stored here, and this model needs one. Sign in again with `hf auth login`.</source>
        <translation>Der Hub nimmt den hier aufbewahrten Token nicht an, und ohne einen gibt er dieses Modell nicht heraus. Mit `hf auth login` neu anmelden.</translation>
    </message>
    <message>
        <source>{hub_id}: {name} has more than {most} bytes, more than such a file can need. Use another model.</source>
        <translation>{hub_id}: {name} hat mehr als {most} Bytes und ist also nicht, was es sein soll. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{hub_id}: {strerror}.</source>
        <translation>{hub_id}: {strerror}.</translation>
    </message>
    <message>
        <source>{hub_id}: the download was stopped; what was downloaded is kept.</source>
        <translation>{hub_id}: Der Download wurde angehalten; was da ist, bleibt.</translation>
    </message>
    <message>
        <source>{hub_id}: {name} arrived damaged (its checksum differs), so it was thrown away. Start the download again.</source>
        <translation>{hub_id}: {name} kam beschädigt an (andere Prüfsumme) und wurde verworfen. Den Download noch einmal starten.</translation>
    </message>
    <message>
        <source>{hub_id}: the connection ended in the middle of {name}. Try again: the download goes on where it stopped.</source>
        <translation>{hub_id}: Die Verbindung brach mitten in {name} ab. Noch einmal versuchen: Der Download geht da weiter, wo er aufhörte.</translation>
    </message>
    <message>
        <source>{hub_id}: the disk has {free} free and the download needs {missing} and 1 GB to spare. Make room first.</source>
        <translation>{hub_id}: Auf dem Laufwerk sind {free} frei, der Download braucht {missing} und 1 GB Reserve. Zuerst Platz schaffen.</translation>
    </message>
    <message>
        <source>{count}, {total}{here}; {free} free on the disk</source>
        <translation>{count}, {total}{here}; {free} frei auf dem Laufwerk</translation>
    </message>
    <message numerus="yes">
        <source>{n} files</source>
        <comment>1 file</comment>
        <translation>
            <numerusform>1 Datei</numerusform>
            <numerusform>{n} Dateien</numerusform>
        </translation>
    </message>
    <message>
        <source> ({size} already here)</source>
        <translation> ({size} schon hier)</translation>
    </message>
    <message>
        <source>{hub_id}: the hub&apos;s list of files has no checksums we can read. Try again, or download the files with another program and drop them here.</source>
        <translation>{hub_id}: Die Dateiliste des Hubs hat keine lesbaren Prüfsummen. Noch einmal versuchen oder die Dateien mit einem anderen Programm herunterladen und hierher ziehen.</translation>
    </message>
    <message>
        <source>This link does not lead to a model: open the model&apos;s page and take its address.</source>
        <translation>Dieser Link führt nicht zu einem Modell: die Seite des Modells öffnen und ihre Adresse nehmen.</translation>
    </message>
    <message>
        <source>{hub_id}: it holds no GGUF models to choose from, but .safetensors: leave out :{quantisation}.</source>
        <translation>{hub_id}: Hier gibt es keine GGUF-Modelle zur Auswahl, nur .safetensors: :{quantisation} weglassen.</translation>
    </message>
    <message>
        <source>{hub_id}: Its weights are in a format that can run code when opened: take a version with .safetensors files.</source>
        <translation>{hub_id}: Die Gewichte haben ein Format, das beim Öffnen Code ausführen kann: eine Version mit .safetensors-Dateien nehmen.</translation>
    </message>
    <message>
        <source>{hub_id}: It holds no weights, neither .safetensors nor .gguf.</source>
        <translation>{hub_id}: Hier gibt es keine Gewichte, weder .safetensors noch .gguf.</translation>
    </message>
    <message>
        <source>{hub_id}: it has no {quantisation}. There are {choices}.</source>
        <translation>{hub_id}: {quantisation} gibt es hier nicht, wohl aber {choices}.</translation>
    </message>
    <message>
        <source>{hub_id}: It has no file {missing}: take another one.</source>
        <translation>{hub_id}: Die Datei {missing} gibt es hier nicht: eine andere nehmen.</translation>
    </message>
    <message>
        <source>{origin}: loading was stopped.</source>
        <translation>{origin}: Das Laden wurde angehalten.</translation>
    </message>
    <message>
        <source>{origin}: does not fit in the memory that is free. Close other programs or take a smaller or more strongly quantised version.</source>
        <translation>{origin}: passt nicht in den freien Speicher. Andere Programme schließen oder eine kleinere oder stärker quantisierte Version nehmen.</translation>
    </message>
    <message>
        <source>{origin}: cannot be read ({error}). Download it again.</source>
        <translation>{origin}: nicht lesbar ({error}). Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{origin}: this is the assistant of a Gemma 4 model, and the model here is another. Use a draft model made for this one.</source>
        <translation>{origin}: ist der Assistent eines Gemma-4-Modells und liest, was dieses berechnet; hier ist ein anderes Modell. Ein Entwurfsmodell für dieses nehmen.</translation>
    </message>
    <message>
        <source>draft_model={place!r} cannot draft for this model, because their tokens differ: {difference}. Use a small model of the same family.</source>
        <translation>draft_model={place!r} kann für dieses Modell nicht entwerfen, weil seine Tokens andere sind: {difference}. Ein kleines Modell derselben Familie nehmen.</translation>
    </message>
    <message>
        <source>{path}: missing. A model folder needs it: get it from where the weights come from.</source>
        <translation>{path}: fehlt. Ein Modellordner braucht diese Datei: von dort holen, wo die Gewichte herkommen.</translation>
    </message>
    <message>
        <source>{path}: has {size} bytes, and no {name} has more than {most}. Get it again from where the model comes from.</source>
        <translation>{path}: hat {size} Bytes, und keine {name} hat mehr als {most}. Noch einmal von dort holen, woher das Modell kommt.</translation>
    </message>
    <message>
        <source>{path}: not text in UTF-8 (at byte {start}). Get it again.</source>
        <translation>{path}: kein Text in UTF-8 (bei Byte {start}). Noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: {why}. Get it again from where the model comes from.</source>
        <translation>{path}: {why}. Noch einmal von dort holen, woher das Modell kommt.</translation>
    </message>
    <message>
        <source>{path}: not a JSON object. Get it again.</source>
        <translation>{path}: kein JSON-Objekt. Noch einmal holen.</translation>
    </message>
    <message>
        <source>more than {most} values of JSON</source>
        <translation>mehr als {most} Werte von JSON</translation>
    </message>
    <message>
        <source>a text in it is half of a character (surrogate)</source>
        <translation>ein Text darin ist ein halbes Zeichen (Surrogat)</translation>
    </message>
    <message>
        <source>not JSON</source>
        <translation>kein JSON</translation>
    </message>
    <message>
        <source>lists and objects inside each other, more than {most} deep</source>
        <translation>Listen und Objekte ineinander, mehr als {most} tief</translation>
    </message>
    <message>
        <source>{path}: files of this format can run code when they are opened, so they are refused. Use the .safetensors files of the model.</source>
        <translation>{path}: Dieses Format kann beim Öffnen Code auf diesem Rechner ausführen und wird deshalb nicht geöffnet. Die .safetensors-Dateien des Modells nehmen.</translation>
    </message>
    <message>
        <source>{root}: holds {count} GGUF files; open one of them: {names}.</source>
        <translation>{root}: enthält {count} GGUF-Dateien; eine davon öffnen: {names}.</translation>
    </message>
    <message>
        <source>{root}: no model in this folder. It needs config.json and .safetensors files, or a GGUF.</source>
        <translation>{root}: In diesem Ordner ist kein Modell. Er braucht config.json und .safetensors-Dateien oder eine GGUF.</translation>
    </message>
    <message>
        <source>a git-lfs pointer, which only says where the file lies</source>
        <translation>ein Git-LFS-Zeiger, der nur sagt, wo die Datei liegt</translation>
    </message>
    <message>
        <source>a web page</source>
        <translation>eine Webseite</translation>
    </message>
    <message>
        <source>a GGUF by its content: let its name end in .gguf</source>
        <translation>dem Inhalt nach eine GGUF: Ihr Name soll auf .gguf enden</translation>
    </message>
    <message>
        <source>a ZIP archive</source>
        <translation>ein ZIP-Archiv</translation>
    </message>
    <message>
        <source>empty where it should begin, as a download that did not finish</source>
        <translation>am Anfang leer, wie ein nicht beendeter Download</translation>
    </message>
    <message>
        <source>a model in llama.cpp&apos;s format before GGUF</source>
        <translation>ein Modell im Format von llama.cpp vor GGUF</translation>
    </message>
    <message>
        <source>{path}: holds a LoRA adapter and no model. Take a model that it was merged into.</source>
        <translation>{path}: enthält einen LoRA-Adapter und kein Modell. Ein Modell nehmen, in das er eingerechnet ist.</translation>
    </message>
    <message>
        <source>{place}: holds drafting heads only. Open {model} and give them as its heads.</source>
        <translation>{place}: enthält nur Entwurfsköpfe. {model} öffnen und sie als dessen Köpfe angeben.</translation>
    </message>
    <message>
        <source>safetensors by its content: let its name end in .safetensors</source>
        <translation>dem Inhalt nach safetensors: Ihr Name soll auf .safetensors enden</translation>
    </message>
    <message>
        <source>the model they belong to</source>
        <translation>Das Modell, zu dem sie gehören,</translation>
    </message>
    <message>
        <source>the {kind} model they belong to (hidden size {width})</source>
        <translation>Das {kind}-Modell, zu dem sie gehören (Breite {width}),</translation>
    </message>
    <message>
        <source>{place}: a draft model ({kind}), which reads what the model it was made for computes. Open that model and give this as its draft model.</source>
        <translation>{place}: ein Entwurfsmodell ({kind}), das liest, was das Modell berechnet, für das es gemacht ist. Jenes Modell öffnen und dieses als dessen Entwurfsmodell angeben.</translation>
    </message>
    <message>
        <source>{index}: lists no shards (weight_map). Get it again.</source>
        <translation>{index}: nennt keine Teile (weight_map). Noch einmal holen.</translation>
    </message>
    <message>
        <source>{index}: lists the shard {name}, which cannot be one.</source>
        <translation>{index}: nennt den Teil {name}, der keiner sein kann.</translation>
    </message>
    <message>
        <source>{shard}: missing, though {told_by} says the model has it. Download that file too.</source>
        <translation>{shard}: fehlt, obwohl {told_by} sagt, dass das Modell sie hat. Auch diese Datei herunterladen.</translation>
    </message>
    <message>
        <source>{place}: the download is not complete. Continue it, or start it again.</source>
        <translation>{place}: nicht bis zum Ende heruntergeladen. Den Download fortsetzen oder neu beginnen.</translation>
    </message>
    <message>
        <source>{place}: holds weights in the format of {program}, which this version does not read. Use a GGUF of the model, or a folder with .safetensors files.</source>
        <translation>{place}: enthält Gewichte in der Form von {program}, die diese Version nicht liest. Vom Modell eine GGUF-Datei oder einen Ordner mit .safetensors-Dateien nehmen.</translation>
    </message>
    <message>
        <source>{name}: {found}</source>
        <translation>{name}: {found}</translation>
    </message>
    <message>
        <source>{name}: no such file or folder. Give a model folder, a file in one, or a hub id such as Qwen/Qwen3.5-0.8B or org/model-GGUF:Q4_K_M.</source>
        <translation>{name}: Es gibt keine solche Datei und keinen solchen Ordner. Einen Modellordner, eine Datei darin oder einen Namen auf dem Hub angeben, wie Qwen/Qwen3.5-0.8B oder org/model-GGUF:Q4_K_M.</translation>
    </message>
    <message>
        <source>No model is named: give a path, or an id of the hub.</source>
        <translation>Kein Modell genannt: einen Pfad oder einen Namen auf dem Hub angeben.</translation>
    </message>
    <message>
        <source>{path}: cannot be opened ({error}).</source>
        <translation>{path}: lässt sich nicht öffnen ({error}).</translation>
    </message>
    <message>
        <source>{file}: not a model file. Give a .gguf file, a model folder, or a .safetensors file in one.</source>
        <translation>{file}: keine Modelldatei. Eine .gguf-Datei, einen Modellordner oder eine .safetensors-Datei darin angeben.</translation>
    </message>
    <message>
        <source>{file}: {tensor} is stored as {what}. Take another quantisation of the model.</source>
        <translation>{file}: {tensor} ist als {what} gespeichert. Eine andere Quantisierung des Modells nehmen.</translation>
    </message>
    <message>
        <source>{path}: the file is empty. Download it again.</source>
        <translation>{path}: Die Datei ist leer. Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path}: damaged at byte {offset}, {why}. Download the file again.</source>
        <translation>{path}: beschädigt bei Byte {offset}, {why}. Die Datei noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>a text that is not UTF-8</source>
        <translation>ein Text, der kein UTF-8 ist</translation>
    </message>
    <message>
        <source>the file is cut short</source>
        <translation>die Datei ist abgeschnitten</translation>
    </message>
    <message>
        <source>{path}: no GGUF but {other}. Get the file again.</source>
        <translation>{path}: keine GGUF, sondern {other}. Die Datei erneut holen.</translation>
    </message>
    <message>
        <source>{path}: not a GGUF file, though it is named like one. Get it again.</source>
        <translation>{path}: keine GGUF-Datei, obwohl sie so heißt. Noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: a big-endian GGUF, made for another kind of machine. Use the little-endian one.</source>
        <translation>{path}: ein Big-Endian-GGUF, für eine andere Art von Rechner. Das mit Little-Endian nehmen.</translation>
    </message>
    <message>
        <source>{path}: GGUF version {version}; versions 2 and 3 are read. Take a newer conversion.</source>
        <translation>{path}: GGUF-Version {version}; gelesen werden Version 2 und 3. Eine neuere Konvertierung nehmen.</translation>
    </message>
    <message>
        <source>the metadata key {shown} is there twice</source>
        <translation>der Metadatenschlüssel {shown} ist zweimal da</translation>
    </message>
    <message>
        <source>the tensor {name} is there twice</source>
        <translation>der Tensor {name} ist zweimal da</translation>
    </message>
    <message>
        <source>{name} should end at byte {end} of {size}: cut short</source>
        <translation>{name} sollte bei Byte {end} von {size} enden: abgeschnitten</translation>
    </message>
    <message>
        <source>{name} and {after_name} overlap</source>
        <translation>{name} und {after_name} überlappen sich</translation>
    </message>
    <message>
        <source>{path}: damaged, {why}. Download the file again.</source>
        <translation>{path}: beschädigt, {why}. Die Datei noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path}: {name} is also in {file_name}: these parts do not belong together. Download them again.</source>
        <translation>{path}: {name} ist auch in {file_name}: Diese Teile gehören nicht zusammen. Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path}: is one of {count} parts, but is not named so (...-00001-of-{count:05}.gguf), so the others cannot be found. Give the parts their own names again.</source>
        <translation>{path}: ist einer von {count} Teilen, heißt aber nicht so (...-00001-of-{count:05}.gguf), also sind die anderen nicht zu finden. Den Teilen ihre eigenen Namen wiedergeben.</translation>
    </message>
    <message>
        <source>{part}: missing, though {name} is one of {count} parts. Download that part too.</source>
        <translation>{part}: fehlt, obwohl {name} einer von {count} Teilen ist. Auch diesen Teil herunterladen.</translation>
    </message>
    <message>
        <source>{path}: says it is part {number} of {total}, its name says part {place} of {count}. Download it again.</source>
        <translation>{path}: nennt sich Teil {number} von {total}, dem Namen nach ist es Teil {place} von {count}. Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path}: its parts hold {found} tensors where {wanted} are promised. Download them again.</source>
        <translation>{path}: Die Teile enthalten {found} Tensoren, versprochen sind {wanted}. Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path}: {key} is {value}, not a count. Download it again.</source>
        <translation>{path}: {key} ist {value}, keine Anzahl. Noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>the vision part of a model</source>
        <translation>den Bildteil eines Modells</translation>
    </message>
    <message>
        <source>an importance matrix, which a model is quantised with</source>
        <translation>eine Wichtigkeitsmatrix, mit der ein Modell quantisiert wird</translation>
    </message>
    <message>
        <source>a control vector</source>
        <translation>einen Steuervektor</translation>
    </message>
    <message>
        <source>{path}: holds no tensors, perhaps a vocabulary alone. Get the whole model.</source>
        <translation>{path}: enthält keine Tensoren, vielleicht nur ein Vokabular. Das ganze Modell holen.</translation>
    </message>
    <message>
        <source>{path}: {name} and {stored_name} are the same tensor under two names. Get the file again.</source>
        <translation>{path}: {name} und {stored_name} sind derselbe Tensor unter zwei Namen. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: holds {what} and no text model. Open the model it goes with.</source>
        <translation>{path}: enthält {what} und kein Textmodell. Das Modell öffnen, zu dem es gehört.</translation>
    </message>
    <message>
        <source>{path}: a GGUF of architecture {name}, which writes no text. Take a chat model.</source>
        <translation>{path}: eine GGUF-Datei der Architektur {name}, die keinen Text schreibt. Ein Chatmodell nehmen.</translation>
    </message>
    <message>
        <source>{path}: a GGUF of architecture {name}, which this version does not run. Take an MLX or Hugging Face folder of the model, or another model.</source>
        <translation>{path}: eine GGUF-Datei der Architektur {name}, die diese Version nicht ausführt. Einen MLX- oder Hugging-Face-Ordner des Modells nehmen oder ein anderes Modell.</translation>
    </message>
    <message>
        <source>Tensors of float64 ({count}) become float32: no GPU computes in more.</source>
        <translation>Tensoren in float64 ({count}) werden zu float32: Keine GPU rechnet genauer.</translation>
    </message>
    <message>
        <source>{origin}: has no model_type, so there is no telling how to run it.</source>
        <translation>{origin}: hat keinen model_type; es lässt sich also nicht sagen, wie es auszuführen ist.</translation>
    </message>
    <message>
        <source>{origin}: weights are packed by {named}, which this version does not run. Take an MLX conversion of the model, or the original in 16 bits.</source>
        <translation>{origin}: Die Gewichte sind mit {named} gepackt, was diese Version nicht ausführt. Eine MLX-Konvertierung des Modells oder das Original in 16 Bit nehmen.</translation>
    </message>
    <message>
        <source>it is {other}</source>
        <translation>sie ist {other}</translation>
    </message>
    <message>
        <source>a part of it is missing or wrong ({error})</source>
        <translation>ein Teil fehlt oder ist falsch ({error})</translation>
    </message>
    <message>
        <source>{path}: {name} is also in {file_name}. Two versions of a model were put into one folder: keep one of them.</source>
        <translation>{path}: {name} ist auch in {file_name}. Zwei Versionen eines Modells liegen in einem Ordner: nur eine davon behalten.</translation>
    </message>
    <message>
        <source>{path}: {name} is stored as {dtype}, which this version does not run. Take an MLX conversion of the model, or the original in 16 bits.</source>
        <translation>{path}: {name} ist als {dtype} gespeichert, was diese Version nicht ausführt. Eine MLX-Konvertierung des Modells oder das Original in 16 Bit nehmen.</translation>
    </message>
    <message>
        <source>{file}: cannot be loaded ({error}).</source>
        <translation>{file}: lässt sich nicht laden ({error}).</translation>
    </message>
    <message>
        <source>{file}: changed while it was being opened. Try again.</source>
        <translation>{file}: wurde während des Öffnens geändert. Noch einmal versuchen.</translation>
    </message>
    <message>
        <source>{origin}: generation_config.json suppresses every token. Get it again.</source>
        <translation>{origin}: generation_config.json unterdrückt jedes Token. Noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin} has token ids up to {vocabulary}, but the model knows {model_vocabulary} tokens: the tokenizer belongs to another model. Use the one that came with the weights.</source>
        <translation>{origin} hat Token-Nummern bis {vocabulary}, das Modell kennt aber nur {model_vocabulary} Tokens: Der Tokenizer gehört zu einem anderen Modell. Den nehmen, der mit den Gewichten kam.</translation>
    </message>
    <message>
        <source>{text} is no text: give a string.</source>
        <translation>{text} ist kein Text: gib eine Zeichenkette.</translation>
    </message>
    <message>
        <source>The text is not valid Unicode: character {start} is the lone surrogate U+{ord:04X}. Remove it or replace it.</source>
        <translation>Der Text ist kein gültiges Unicode: Zeichen {start} ist das einzelne Surrogat U+{ord:04X}. Entfernen oder ersetzen.</translation>
    </message>
    <message>
        <source>{path} is missing: get tokenizer.json from where the model came from.</source>
        <translation>{path} fehlt: tokenizer.json von dort holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>{path} is not a tokenizer: it has no model. Download the file again.</source>
        <translation>{path} ist kein Tokenizer: kein Modell darin. Die Datei noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{config}: added token {key} is not described: correct it.</source>
        <translation>{config}: Das hinzugefügte Token {key} ist nicht beschrieben: berichtigen.</translation>
    </message>
    <message>
        <source>{path}: a broken link, or a file just deleted. Get it again.</source>
        <translation>{path}: ein Verweis auf etwas, das nicht da ist, oder gerade gelöscht. Erneut holen.</translation>
    </message>
    <message>
        <source>{path}: a folder, a pipe or a device where a file belongs. Get it again.</source>
        <translation>{path}: ein Ordner, eine Pipe oder ein Gerät, wo eine Datei hingehört. Noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: there is no permission to read it. Allow reading it and its folder.</source>
        <translation>{path}: darf nicht gelesen werden. Das Lesen der Datei und ihres Ordners erlauben.</translation>
    </message>
    <message>
        <source>{path}: cannot be read ({strerror}). Check the disk it is on.</source>
        <translation>{path}: nicht lesbar ({strerror}). Nach dem Laufwerk sehen, auf dem die Datei liegt.</translation>
    </message>
    <message>
        <source>{origin}: the tensor {name} is missing. The file is incomplete or its config belongs to another model: get both again from the same place.</source>
        <translation>{origin}: Der Tensor {name} fehlt. Die Datei ist unvollständig, oder ihre Config gehört zu einem anderen Modell: beide noch einmal vom selben Ort holen.</translation>
    </message>
    <message>
        <source>{origin}: {name} has the shape {shape}, the config asks for {wanted}. The config does not belong to these weights.</source>
        <translation>{origin}: {name} hat die Form {shape}, die Config verlangt {wanted}. Die Config gehört nicht zu diesen Gewichten.</translation>
    </message>
    <message>
        <source>text_zoom={text_zoom} is not possible: use {smallest_zoom} to {largest_zoom}.</source>
        <translation>text_zoom={text_zoom} ist nicht möglich; erlaubt: {smallest_zoom} bis {largest_zoom}.</translation>
    </message>
    <message>
        <source>{name}={value} is not possible: use 0 or more.</source>
        <translation>{name}={value} ist nicht möglich; erlaubt: 0 oder mehr.</translation>
    </message>
    <message>
        <source>{cache} is not possible here. {words} Use CacheOptions().</source>
        <translation>{cache} ist hier nicht möglich. {words} CacheOptions() verwenden.</translation>
    </message>
    <message>
        <source>The draft model cannot have a cache of {bits} bits. {words} Set head_bits to 16.</source>
        <translation>Das Entwurfsmodell kann keinen Cache mit {bits} Bit haben. {words} head_bits auf 16 setzen.</translation>
    </message>
    <message>
        <source>This draft model cannot draft: some of its layers cannot take back rejected tokens. Use another draft model.</source>
        <translation>Dieses Entwurfsmodell kann nicht entwerfen: Einige seiner Schichten behalten einen Block von Tokens ganz oder gar nicht, und das Zielmodell verwirft Teile von Blöcken. Ein anderes Entwurfsmodell angeben.</translation>
    </message>
    <message>
        <source>The prompt is empty: give at least one token.</source>
        <translation>Die Eingabe ist leer: mindestens ein Token angeben.</translation>
    </message>
    <message>
        <source>The prompt has {ids:,} tokens, the context holds {limit:,}: shorten it.</source>
        <translation>Die Eingabe hat {ids:,} Tokens, der Kontext fasst {limit:,}: kürzen.</translation>
    </message>
    <message>
        <source>Token ids must be whole numbers ({error}).</source>
        <translation>Token-Nummern müssen ganze Zahlen sein ({error}).</translation>
    </message>
    <message>
        <source>A prompt is text or token ids: decode the bytes to text.</source>
        <translation>Bytes sind kein Prompt: zuerst in Text umwandeln.</translation>
    </message>
    <message>
        <source>Token {bad} is not in the vocabulary of {vocabulary}.</source>
        <translation>Token {bad} steht nicht im Vokabular von {vocabulary}.</translation>
    </message>
    <message>
        <source>Several prompts are wanted: give a list of texts or of token ids.</source>
        <translation>Erwartet werden mehrere Prompts: gib eine Liste von Texten oder von Token-Nummern.</translation>
    </message>
    <message>
        <source>The engine is closed: load the model again.</source>
        <translation>Die Engine ist geschlossen: das Modell neu laden.</translation>
    </message>
    <message>
        <source>An engine belongs to the thread that loaded it: call it from there (Session.stop alone may be called from anywhere).</source>
        <translation>Eine Engine gehört dem Thread, der sie geladen hat: sie von dort aufrufen (nur Session.stop darf von überall kommen).</translation>
    </message>
    <message>
        <source>{path}: the tensor {name} is missing. Get the file again.</source>
        <translation>{path}: Der Tensor {name} fehlt. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: uses {architecture}.{key}, which this version does not run. Take another model.</source>
        <translation>{path}: verwendet {architecture}.{key}, was diese Version nicht ausführt. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{path}: {what} ({architecture}.{key}) is not valid. Get the file again.</source>
        <translation>{path}: {what} ({architecture}.{key}) ist nicht gültig. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: has no general.architecture, so there is no telling how to run it.</source>
        <translation>{path}: hat kein general.architecture; es lässt sich also nicht sagen, wie es auszuführen ist.</translation>
    </message>
    <message>
        <source>a text</source>
        <translation>ein Text</translation>
    </message>
    <message>
        <source>a whole number</source>
        <translation>eine ganze Zahl</translation>
    </message>
    <message>
        <source>a number</source>
        <translation>eine Zahl</translation>
    </message>
    <message>
        <source>yes or no</source>
        <translation>Ja oder Nein</translation>
    </message>
    <message>
        <source>{path}: {key} is {value}, where {wanted} is needed. Get the file again.</source>
        <translation>{path}: {key} ist {value}; nötig ist {wanted}. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>an interval or a list of yes and no</source>
        <translation>ein Abstand oder eine Liste aus Ja und Nein</translation>
    </message>
    <message>
        <source>{path}: extends its context by rope scaling {kind}, which this version does not support for this architecture. Use the model without it.</source>
        <translation>{path}: dehnt den Kontext mit der RoPE-Skalierung {kind}, was diese Version für diese Architektur nicht tut. Das Modell ohne sie nehmen.</translation>
    </message>
    <message>
        <source>{path}: {factors} is stored as {name} {shape}, where a list of F32 is needed. Get the file again.</source>
        <translation>{path}: {factors} ist als {name} {shape} gespeichert; nötig ist eine Liste von F32. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: {factors} does not hold {pairs} positive numbers. Get the file again.</source>
        <translation>{path}: {factors} enthält nicht {pairs} positive Zahlen. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>a positive number</source>
        <translation>eine positive Zahl</translation>
    </message>
    <message>
        <source>{path}: selects experts by a function that this version does not support (expert_gating_func). Use another model.</source>
        <translation>{path}: wählt Experten auf eine Weise, die diese Version nicht kennt (expert_gating_func). Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{path}: normalises softmax scores of experts (expert_weights_norm), which this version does not support. Use another model.</source>
        <translation>{path}: gewichtet die Softmax-Werte der Experten neu (expert_weights_norm), was diese Version nicht tut. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{path}: its layers are all of one kind ({pattern}), which this version does not run for this architecture. Take another file of the model.</source>
        <translation>{path}: Die Schichten sind alle von einer Art ({pattern}), was diese Version für diese Architektur nicht ausführt. Eine andere Datei des Modells nehmen.</translation>
    </message>
    <message>
        <source>{path}: {value_heads} value heads for {key_heads} key heads in a width of {inner} cannot be. Get the file again.</source>
        <translation>{path}: {value_heads} Wert-Köpfe auf {key_heads} Schlüssel-Köpfe in einer Breite von {inner} können nicht sein. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{files}: loading was stopped.</source>
        <translation>{files}: Das Laden wurde angehalten.</translation>
    </message>
    <message>
        <source>{file}: {name} holds values that are not numbers. The file is damaged: get it again.</source>
        <translation>{file}: {name} enthält Werte, die keine Zahlen sind. Die Datei ist beschädigt: noch einmal holen.</translation>
    </message>
    <message>
        <source>an object</source>
        <translation>ein Objekt</translation>
    </message>
    <message>
        <source>{origin}: the config has {name}={value}, where {wanted} is needed. Get the file again from where the weights come from.</source>
        <translation>{origin}: In der Config steht {name}={value}; nötig ist {wanted}. Die Datei noch einmal von dort holen, wo die Gewichte herkommen.</translation>
    </message>
    <message>
        <source>a list of whole numbers</source>
        <translation>eine Liste ganzer Zahlen</translation>
    </message>
    <message>
        <source>a list of true and false</source>
        <translation>eine Liste aus wahr und falsch</translation>
    </message>
    <message>
        <source>a list of strings</source>
        <translation>eine Liste von Texten</translation>
    </message>
    <message>
        <source>a list of numbers</source>
        <translation>eine Liste von Zahlen</translation>
    </message>
    <message>
        <source>a word</source>
        <translation>ein Wort</translation>
    </message>
    <message>
        <source>a number above 0</source>
        <translation>eine Zahl über 0</translation>
    </message>
    <message>
        <source>a number below 0</source>
        <translation>eine Zahl unter 0</translation>
    </message>
    <message>
        <source>true or false</source>
        <translation>true oder false</translation>
    </message>
    <message>
        <source>one of {known} for each layer</source>
        <translation>für jede Schicht eines von {known}</translation>
    </message>
    <message>
        <source>the kind of every layer</source>
        <translation>die Art jeder Schicht</translation>
    </message>
    <message>
        <source>{origin}: the config names no target_layer_ids. Get it again.</source>
        <translation>{origin}: Die Config nennt keine target_layer_ids. Noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: d2t names token {what} of a vocabulary of {vocabulary}. The file is damaged or for another model: get it again.</source>
        <translation>{origin}: d2t nennt Token {what} eines Vokabulars von {vocabulary}. Die Datei ist beschädigt oder für ein anderes Modell: noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: the tensor d2t [{draft_vocabulary}] is missing or of another shape, so nobody knows which tokens it drafts. Get the file again.</source>
        <translation>{origin}: Der Tensor d2t [{draft_vocabulary}] fehlt oder hat eine andere Form; welche Tokens entworfen werden, ist so nicht zu wissen. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: assistants with experts or embeddings of each layer are not run.</source>
        <translation>{origin}: Assistenten mit Experten oder mit Embeddings je Schicht laufen nicht.</translation>
    </message>
    <message>
        <source>{origin}: {centroids} centroids, {chosen} of them looked into, do not go with a vocabulary of {vocabulary}. Get the config again.</source>
        <translation>{origin}: {centroids} Schwerpunkte, von denen {chosen} durchsucht werden, passen nicht zu einem Vokabular von {vocabulary}. Die Config noch einmal holen.</translation>
    </message>
    <message>
        <source>a number that leaves a layer of each kind its own keys</source>
        <translation>eine Zahl, die einer Schicht jeder Art eigene Keys lässt</translation>
    </message>
    <message>
        <source>an object for each kind of layer</source>
        <translation>ein Objekt für jede Art von Schicht</translation>
    </message>
    <message>
        <source>{origin}: token_ordering does not name every token once. The file is damaged or for another model: get it again.</source>
        <translation>{origin}: token_ordering nennt nicht jedes Token einmal. Die Datei ist beschädigt oder für ein anderes Modell: noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: its {heads} heads cannot share the target&apos;s keys.</source>
        <translation>{origin}: Die {heads} Köpfe können die Schlüssel des Zielmodells nicht mitbenutzen.</translation>
    </message>
    <message>
        <source>{origin}: the tensor masked_embedding.token_ordering [{vocabulary}] is missing or of another shape. Get the file again.</source>
        <translation>{origin}: Der Tensor masked_embedding.token_ordering [{vocabulary}] fehlt oder hat eine andere Form. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: this draft model reads layer {beyond} of its target, which has {layers}. It was made for another model: take the one for this model.</source>
        <translation>{origin}: Dieses Entwurfsmodell liest Schicht {beyond} des Zielmodells, das nur {layers} hat. Es wurde für ein anderes Modell gemacht: das für dieses Modell nehmen.</translation>
    </message>
    <message>
        <source>{origin}: draft models of this kind read hidden states of inner layers, which this version does not provide for this architecture. Draft with a small model or prompt lookup.</source>
        <translation>{origin}: Entwurfsmodelle dieser Art lesen innere Schichten des Zielmodells, die diese Version bei dieser Architektur nicht herausgeben kann. Mit einem kleinen Modell oder mit Suche entwerfen.</translation>
    </message>
    <message>
        <source>{origin}: was made for a target whose {what} {wanted} wide; here it is {there}. It belongs to another model: take the one for this model.</source>
        <translation>{origin}: wurde für ein Zielmodell gemacht, dessen {what} {wanted} breit; hier sind es {there}. Es gehört zu einem anderen Modell: das für dieses Modell nehmen.</translation>
    </message>
    <message>
        <source>{origin}: selects experts by topk_method {method}, which this version does not support. Use another model.</source>
        <translation>{origin}: wählt Experten mit topk_method {method}, was diese Version nicht tut. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>&quot;full&quot; for the first layer</source>
        <translation>„full“ für die erste Schicht</translation>
    </message>
    <message>
        <source>softmax or sigmoid</source>
        <translation>softmax oder sigmoid</translation>
    </message>
    <message>
        <source>{origin}: mlx-lm has no class for model_type {model_type}.</source>
        <translation>{origin}: mlx-lm hat keine Klasse für model_type {model_type}.</translation>
    </message>
    <message>
        <source>a whole number, or a list of them, below 2**31</source>
        <translation>eine ganze Zahl oder eine Liste davon, unter 2**31</translation>
    </message>
    <message>
        <source>{origin}: the norm weights of the {part} leave open whether they are stored as w or as 1 + w, and nothing else in the file tells. Take the heads from the original Hugging Face files, or convert model and heads together.</source>
        <translation>{origin}: An den Normgewichten ({part}) ist nicht zu erkennen, ob sie als w oder als 1 + w gespeichert sind, und nichts sonst in der Datei verrät es. Die Köpfe aus den ursprünglichen Hugging-Face-Dateien nehmen oder Modell und Köpfe zusammen konvertieren.</translation>
    </message>
    <message>
        <source>{origin}: norm weights hold values that are not numbers. The file is damaged: get it again.</source>
        <translation>{origin}: Normgewichte enthalten Werte, die keine Zahlen sind. Die Datei ist beschädigt: noch einmal holen.</translation>
    </message>
    <message>
        <source>a number above 1</source>
        <translation>eine Zahl über 1</translation>
    </message>
    <message>
        <source>three whole numbers</source>
        <translation>drei ganze Zahlen</translation>
    </message>
    <message>
        <source>{origin}: extends its context by rope scaling {name}, which this version does not support. Use the model without it.</source>
        <translation>{origin}: dehnt den Kontext mit der RoPE-Skalierung {name}, was diese Version nicht tut. Das Modell ohne sie nehmen.</translation>
    </message>
    <message>
        <source>a number from 8 on</source>
        <translation>eine Zahl ab 8</translation>
    </message>
    <message>
        <source>{origin}: no place for {name}, the config asks for {layers} layers. The config does not belong to these weights.</source>
        <translation>{origin}: kein Platz für {name}, die Konfiguration verlangt {layers} Schichten. Sie gehört nicht zu diesen Gewichten.</translation>
    </message>
    <message>
        <source>for pictures, which are not read</source>
        <translation>für Bilder, die nicht gelesen werden</translation>
    </message>
    <message>
        <source>for sound, which is not read</source>
        <translation>für Ton, der nicht gelesen wird</translation>
    </message>
    <message>
        <source>computed from the config</source>
        <translation>aus der Konfiguration berechnet</translation>
    </message>
    <message>
        <source>for an 8-bit cache, which is not scaled here</source>
        <translation>für einen 8-Bit-Cache, der hier nicht skaliert wird</translation>
    </message>
    <message>
        <source>for drafts from a smaller vocabulary</source>
        <translation>für Entwürfe aus einem kleineren Vokabular</translation>
    </message>
    <message>
        <source>a copy of the embedding</source>
        <translation>eine Kopie des Embeddings</translation>
    </message>
    <message>
        <source>keys of layers that read those of earlier ones</source>
        <translation>Keys von Schichten, die die Keys früherer Schichten lesen</translation>
    </message>
    <message>
        <source>limits of rounding that is not done</source>
        <translation>Grenzen einer Rundung, die hier nicht stattfindet</translation>
    </message>
    <message>
        <source>a draft model, offered by this folder&apos;s name</source>
        <translation>ein Entwurfsmodell, angeboten unter dem Namen dieses Ordners</translation>
    </message>
    <message>
        <source>more drafting heads than are run</source>
        <translation>mehr Entwurfsköpfe, als laufen</translation>
    </message>
    <message>
        <source>{origin}: the tensor {name} is there twice, under two names. Two conversions were put into one folder: keep one of them.</source>
        <translation>{origin}: Der Tensor {name} ist zweimal da, unter zwei Namen. Zwei Konvertierungen liegen in einem Ordner: nur eine davon behalten.</translation>
    </message>
    <message>
        <source>{origin}: the tokenizer has {found} classes of tokens, and the model&apos;s n-gram tables were made for {count}. Get the tokenizer again from where the weights come from.</source>
        <translation>{origin}: Der Tokenizer hat {found} Klassen von Token, und die N-Gramm-Tabellen des Modells wurden für {count} gemacht. Holen Sie den Tokenizer neu von dort, wo die Gewichte herkommen.</translation>
    </message>
    <message>
        <source>{origin}: this model has no place for {shown}{rest}. The config does not belong to these weights, or they are of a variant this version does not know.</source>
        <translation>{origin}: Dieses Modell hat keinen Platz für {shown}{rest}. Die Config gehört nicht zu diesen Gewichten, oder sie sind von einer Variante, die diese Version nicht kennt.</translation>
    </message>
    <message>
        <source>{origin}: {name} is packed in a way that does not exist ({found}). The file is damaged or its config belongs to another model: get both again from the same place.</source>
        <translation>{origin}: {name} ist auf eine Weise gepackt, die es nicht gibt ({found}). Die Datei ist beschädigt, oder ihre Config gehört zu einem anderen Modell: beide noch einmal vom selben Ort holen.</translation>
    </message>
    <message>
        <source>{origin}: {name} holds {dtype} where floating numbers belong. It may be packed without its scales: get the file again.</source>
        <translation>{origin}: {name} enthält {dtype}, wo gebrochene Zahlen hingehören. Vielleicht fehlen die Skalen dazu: die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>logit_bias={{{bias}: ...}} names no token: use ids below {vocabulary}.</source>
        <translation>logit_bias={{{bias}: ...}} nennt kein Token: Nummern unter {vocabulary} verwenden.</translation>
    </message>
    <message>
        <source>template_arguments: {name} cannot be set. This model&apos;s template asks for {arguments}.</source>
        <translation>template_arguments: {name} lässt sich nicht setzen. Die Vorlage dieses Modells fragt nach {arguments}.</translation>
    </message>
    <message>
        <source>template_arguments: {name}={value} is not possible: use a text, a number, True, False or None.</source>
        <translation>template_arguments: {name}={value} ist nicht möglich; erlaubt: ein Text, eine Zahl, True, False oder None.</translation>
    </message>
    <message>
        <source>There are no messages: write something first.</source>
        <translation>Es gibt keine Nachrichten: zuerst etwas schreiben.</translation>
    </message>
    <message>
        <source>Only an answer can be continued: the last message is not one.</source>
        <translation>Nur eine Antwort lässt sich fortsetzen: Die letzte Nachricht ist keine.</translation>
    </message>
    <message>
        <source>{origin}: the chat template leaves out the answer that is to be continued: start a new answer instead.</source>
        <translation>{origin}: Die Chatvorlage lässt die Antwort weg, die fortgesetzt werden soll: stattdessen eine neue Antwort beginnen.</translation>
    </message>
    <message>
        <source>{origin}: the chat template has {source} characters, more than the {longest_source} that are read: use a shorter one.</source>
        <translation>{origin}: Die Chatvorlage hat {source} Zeichen, mehr als die {longest_source}, die gelesen werden: eine kürzere verwenden.</translation>
    </message>
    <message>
        <source>{origin}: the chat template cannot be read ({error}). Get it again, or replace it.</source>
        <translation>{origin}: Die Chat-Vorlage ist nicht lesbar ({error}). Sie erneut holen oder ersetzen.</translation>
    </message>
    <message>
        <source>{origin}: the chat template fails ({error}). Change the conversation, or replace the template.</source>
        <translation>{origin}: Die Chatvorlage schlägt fehl ({error}). Das Gespräch ändern oder die Vorlage ersetzen.</translation>
    </message>
    <message>
        <source>The messages use every private-use character of Unicode: remove some.</source>
        <translation>Die Nachrichten enthalten jedes Zeichen aus Unicodes privatem Bereich: einige entfernen.</translation>
    </message>
    <message>
        <source>{setting} {value} is not a token id or a list of them: correct it.</source>
        <translation>{setting} {value} ist keine Token-ID und keine Liste davon: berichtigen.</translation>
    </message>
    <message>
        <source>{path}: its chat_template is neither text nor a list of templates.</source>
        <translation>{path}: Die chat_template ist weder ein Text noch eine Liste von Vorlagen.</translation>
    </message>
    <message>
        <source>{origin}: this version does not know its pre-tokenizer {name} (tokenizer.ggml.pre), and a guess would give the model wrong tokens. Take the model as a folder, or another GGUF of it.</source>
        <translation>{origin}: Diese Version kennt den Pre-Tokenizer {name} nicht (tokenizer.ggml.pre), und geraten bekäme das Modell falsche Tokens. Das Modell als Ordner nehmen oder ein anderes GGUF davon.</translation>
    </message>
    <message>
        <source>{origin}: its vocabulary has a token twice. Get the file again.</source>
        <translation>{origin}: Im Vokabular steht ein Token zweimal. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: the merge {text} is no pair. Get it again.</source>
        <translation>{origin}: Die Zusammenführung {text} ist kein Paar. Noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: tokenizer.ggml.{key} is {value}, where {wanted} is needed. Get the file again.</source>
        <translation>{origin}: tokenizer.ggml.{key} ist {value}; nötig ist {wanted}. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: {key} is not a list of texts. Get the file again.</source>
        <translation>{origin}: {key} ist keine Liste von Texten. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: {key} does not go with {count} tokens. Get the file again.</source>
        <translation>{origin}: {key} passt nicht zu {count} Tokens. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: its tokenizer.ggml.model is {kind}; this version reads {readers}. Take the model as a folder.</source>
        <translation>{origin}: Das tokenizer.ggml.model ist {kind}; diese Version liest {readers}. Das Modell als Ordner nehmen.</translation>
    </message>
    <message>
        <source>{origin}: its chat template is not a text. Get the file again.</source>
        <translation>{origin}: Die Chatvorlage ist kein Text. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: its vocabulary has pieces that are far longer than any words. Get the file again.</source>
        <translation>{origin}: Der Wortschatz hat Stücke, die weit länger sind als alle Wörter. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{path} is not in SentencePiece&apos;s format: get tokenizer.json from where the model came from, or take another version of it.</source>
        <translation>{path} hat nicht das Format von SentencePiece: tokenizer.json von dort holen, wo das Modell herkam, oder eine andere Version davon nehmen.</translation>
    </message>
    <message>
        <source>{path} is damaged ({error}): download it again.</source>
        <translation>{path} ist beschädigt ({error}): noch einmal herunterladen.</translation>
    </message>
    <message>
        <source>{path} holds a vocabulary that is no BPE, which this version does not run: get tokenizer.json from where the model came from.</source>
        <translation>{path} enthält ein Vokabular, das kein BPE ist und das diese Version nicht ausführt: tokenizer.json von dort holen, wo das Modell herkam.</translation>
    </message>
    <message>
        <source>{path} gives token {text} the id {token}, {name} gives it {token_to_id}: take both files from the same model.</source>
        <translation>{path} gibt Token {text} die Nummer {token}, {name} gibt ihm {token_to_id}: beide Dateien vom selben Modell nehmen.</translation>
    </message>
    <message>
        <source>numbers with commas between</source>
        <translation>Zahlen mit Kommas dazwischen</translation>
    </message>
    <message>
        <source>an even part of a head</source>
        <translation>ein gerader Teil eines Kopfes</translation>
    </message>
    <message>
        <source>0, 4 or 128 for each layer</source>
        <translation>0, 4 oder 128 für jede Schicht</translation>
    </message>
    <message>
        <source>not loaded: {why}</source>
        <translation>nicht geladen: {why}</translation>
    </message>
    <message>
        <source>A draft model made for this model was found and is not in use: {path}. Choose it as the draft model to draft with it.</source>
        <translation>Ein Entwurfsmodell für dieses Modell wurde gefunden und wird nicht benutzt: {path}. Um damit zu raten, es als Entwurfsmodell wählen.</translation>
    </message>
    <message>
        <source>{name}: {plan}. Take a smaller model.</source>
        <translation>{name}: {plan}. Ein kleineres Modell nehmen.</translation>
    </message>
    <message>
        <source>{name}: {plan}. Limit chats to fewer tokens, take a smaller model, or load it anyway: the computer may then slow down, or end the program.</source>
        <translation>{name}: {plan}. Beschränken Sie Chats auf weniger Tokens, nehmen Sie ein kleineres Modell, oder laden Sie es trotzdem: Der Computer kann dann langsam werden oder das Programm beenden.</translation>
    </message>
    <message>
        <source>attention</source>
        <translation>Attention</translation>
    </message>
    <message>
        <source>the model&apos;s main calculations</source>
        <translation>die Hauptrechnungen des Modells</translation>
    </message>
    <message>
        <source>looking back over the chat</source>
        <translation>Zurückblicken auf den Chat</translation>
    </message>
    <message>
        <source>a running summary of the chat</source>
        <translation>laufende Zusammenfassung des Chats</translation>
    </message>
    <message>
        <source>preparing the running summary</source>
        <translation>Vorbereiten der laufenden Zusammenfassung</translation>
    </message>
    <message>
        <source>two calculations done as one</source>
        <translation>zwei Rechnungen in einer</translation>
    </message>
    <message>
        <source>calculating and adding in one go</source>
        <translation>Rechnen und Addieren in einem</translation>
    </message>
    <message>
        <source>parts of the model chosen for each token</source>
        <translation>Teile des Modells, die für jedes Token gewählt werden</translation>
    </message>
    <message>
        <source>reading messages with GGUF files</source>
        <translation>Lesen von Nachrichten mit GGUF-Dateien</translation>
    </message>
    <message>
        <source>looking up tokens in GGUF files</source>
        <translation>Nachschlagen von Tokens in GGUF-Dateien</translation>
    </message>
    <message>
        <source>starting each guess</source>
        <translation>Beginnen jedes Ratens</translation>
    </message>
    <message>
        <source>choosing the likeliest token</source>
        <translation>Wählen des wahrscheinlichsten Tokens</translation>
    </message>
    <message>
        <source>choosing a token by the sampling settings</source>
        <translation>Wählen eines Tokens nach den Einstellungen der Auswahl</translation>
    </message>
    <message>
        <source>drawing random numbers</source>
        <translation>Ziehen von Zufallszahlen</translation>
    </message>
    <message>
        <source>keeping numbers in range</source>
        <translation>Halten der Zahlen in ihrem Bereich</translation>
    </message>
    <message>
        <source>calculating for many tokens at once</source>
        <translation>Rechnen für viele Tokens auf einmal</translation>
    </message>
    <message>
        <source>reading messages with parts of GGUF files chosen for each token</source>
        <translation>Lesen von Nachrichten mit Teilen von GGUF-Dateien, die für jedes Token gewählt werden</translation>
    </message>
    <message>
        <source>mixing parallel streams of the model</source>
        <translation>Mischen paralleler Ströme des Modells</translation>
    </message>
    <message>
        <source>Not made for models like this one.</source>
        <translation>Nicht für Modelle wie dieses gemacht.</translation>
    </message>
    <message>
        <source>switched off: {why}</source>
        <translation>ausgeschaltet: {why}</translation>
    </message>
    <message>
        <source>it takes no sizes of {outputs} x {inputs}</source>
        <translation>nicht für Größen von {outputs} x {inputs}</translation>
    </message>
    <message>
        <source>This computer has no Metal, Apple&apos;s way to use the graphics processor.</source>
        <translation>Dieser Computer hat kein Metal, Apples Zugang zum Grafikprozessor.</translation>
    </message>
    <message>
        <source>Not needed by this model.</source>
        <translation>Von diesem Modell nicht gebraucht.</translation>
    </message>
    <message>
        <source>Switched off after an error on this GPU.</source>
        <translation>Nach einem Fehler auf dieser GPU ausgeschaltet.</translation>
    </message>
    <message>
        <source>Not tried on this GPU yet: that happens while no answer runs.</source>
        <translation>Auf dieser GPU noch nicht erprobt: Das geschieht, während keine Antwort läuft.</translation>
    </message>
    <message>
        <source>Not timed on this GPU yet: that happens while no answer runs.</source>
        <translation>Auf dieser GPU noch nicht gemessen: Das geschieht, während keine Antwort läuft.</translation>
    </message>
    <message>
        <source>Measured to be no faster on this GPU.</source>
        <translation>Auf dieser GPU gemessen nicht schneller.</translation>
    </message>
    <message>
        <source>not {trial}: {why}</source>
        <translation>nicht {trial}: {why}</translation>
    </message>
    <message>
        <source>the program ended while it was tried</source>
        <translation>das Programm endete, während er erprobt wurde</translation>
    </message>
    <message>
        <source>on this GPU {trial} is wrong: {why}</source>
        <translation>auf dieser GPU ist {trial} falsch: {why}</translation>
    </message>
    <message>
        <source>skipped</source>
        <translation>ausgelassen</translation>
    </message>
    <message>
        <source>for pictures, read with the first one</source>
        <translation>für Bilder, wird mit dem ersten gelesen</translation>
    </message>
    <message>
        <source>vision</source>
        <translation>Sehen</translation>
    </message>
    <message>
        <source>single rows are read from the disk when a text needs them</source>
        <translation>einzelne Zeilen werden von der Platte gelesen, wenn ein Text sie braucht</translation>
    </message>
    <message>
        <source>tables on disk</source>
        <translation>Tabellen auf der Platte</translation>
    </message>
    <message>
        <source>it cannot be timed ({error})</source>
        <translation>er lässt sich nicht messen ({error})</translation>
    </message>
    <message>
        <source>a pass failed with it in use, and no kernel fails alone ({error})</source>
        <translation>ein Durchgang mit ihm schlug fehl, und kein Kernel schlägt allein fehl ({error})</translation>
    </message>
    <message>
        <source>it does not run ({error})</source>
        <translation>er läuft nicht ({error})</translation>
    </message>
    <message>
        <source>its result is not that of its reference</source>
        <translation>sein Ergebnis ist nicht das seiner Referenz</translation>
    </message>
    <message>
        <source>it lies {apart:.1e} of the largest value off its reference</source>
        <translation>er liegt um {apart:.1e} des größten Werts neben seiner Referenz</translation>
    </message>
    <message>
        <source>a row of {rows} is another beside {more} more</source>
        <translation>eine Zeile von {rows} ist neben {more} weiteren eine andere</translation>
    </message>
    <message>
        <source>This model&apos;s numbers outgrew float16, so it computes in bfloat16 now. To avoid the switch, load it with bfloat16 as its number format.</source>
        <translation>Die Zahlen dieses Modells wurden zu groß für float16; es rechnet jetzt in bfloat16. Um den Wechsel zu vermeiden, laden Sie es mit bfloat16 als Zahlenformat.</translation>
    </message>
    <message>
        <source>{path}: {error}</source>
        <translation>{path}: {error}</translation>
    </message>
    <message>
        <source>a kind for each layer</source>
        <translation>eine Art für jede Schicht</translation>
    </message>
    <message>
        <source>This conversion lacks the correction of the expert selection (e_score_correction_bias): its answers differ from those of the original.</source>
        <translation>Diese Konvertierung hat weggelassen, was die Wahl der Experten berichtigt (e_score_correction_bias): Die Antworten sind die der Konvertierung, nicht die des Originals.</translation>
    </message>
    <message>
        <source>{origin}: MiniMax-Text-01, M1 or VL-01, whose lightning attention this version does not run. Take MiniMax-M2 or another model.</source>
        <translation>{origin}: MiniMax-Text-01, M1 oder VL-01, deren Lightning Attention diese Version nicht ausführt. MiniMax-M2 oder ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>Repacked weights of an earlier load cannot be used and are made again: {error}</source>
        <translation>Aufgehobene Gewichte sind nicht verwendbar und werden neu erzeugt und geschrieben: {error}</translation>
    </message>
    <message>
        <source>The repacked weights ({size}) cannot be kept in {folder} ({error}): the next load will repack again. Make room, or name another folder.</source>
        <translation>Die umgepackten Gewichte ({size}) lassen sich nicht in {folder} aufheben ({error}): Beim nächsten Laden wird wieder umgepackt. Platz schaffen oder einen anderen Ordner angeben.</translation>
    </message>
    <message>
        <source>{path}: holds other tensors.</source>
        <translation>{path}: enthält andere Tensoren.</translation>
    </message>
    <message>
        <source>the file is empty: download it again</source>
        <translation>die Datei ist leer: sie noch einmal herunterladen</translation>
    </message>
    <message>
        <source>this is a pointer of Git LFS, not the weights: run git lfs pull, or download it</source>
        <translation>das ist ein Verweis von Git LFS, nicht die Gewichte: git lfs pull ausführen oder sie herunterladen</translation>
    </message>
    <message>
        <source>the file does not start as a GGUF does: download it again</source>
        <translation>die Datei beginnt nicht wie ein GGUF: sie noch einmal herunterladen</translation>
    </message>
    <message>
        <source>the file ends in its header: download it again</source>
        <translation>die Datei endet mitten im Kopf: sie noch einmal herunterladen</translation>
    </message>
    <message>
        <source>the file does not start as a safetensors file does: download it again</source>
        <translation>die Datei beginnt nicht wie eine safetensors-Datei: sie noch einmal herunterladen</translation>
    </message>
    <message>
        <source>{origin}: asks for {key} {name}, which this version does not run. Take another model.</source>
        <translation>{origin}: verlangt {key} {name}, was diese Version nicht ausführt. Ein anderes Modell nehmen.</translation>
    </message>
    <message>
        <source>{origin}: its vocabulary is of bytes, but its pre-tokenizer is of another kind and would lose all spaces: a tool that does not know it saved it again. Get tokenizer.json from where the model was first published.</source>
        <translation>{origin}: Der Wortschatz besteht aus Bytes, der Pre-Tokenizer aber ist anderer Art und verlöre alle Leerzeichen: Ein Programm, das ihn nicht kennt, hat ihn neu gespeichert. tokenizer.json von dort holen, wo das Modell zuerst veröffentlicht wurde.</translation>
    </message>
    <message>
        <source>{origin}: the tokenizer fails ({error}). Get it again from where the model comes from.</source>
        <translation>{origin}: Der Tokenizer scheitert ({error}). Ihn von dort noch einmal holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>{origin}: the tokenizer needs more than {seconds:.0f} s for a text of {characters} characters. Shorten the text, or get the tokenizer from where the model comes from.</source>
        <translation>{origin}: Der Tokenizer braucht mehr als {seconds:.0f} s für einen Text von {characters} Zeichen. Den Text kürzen oder den Tokenizer von dort holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>{origin}: its tokens are far longer than any words. Get it again from where the model comes from.</source>
        <translation>{origin}: Seine Token sind weit länger als alle Wörter. Ihn von dort noch einmal holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>{origin}: its replacements could make a text {growth:.0f} times as long, more than {most} times. Get it again from where the model comes from.</source>
        <translation>{origin}: Seine Ersetzungen könnten einen Text {growth:.0f}-mal so lang machen, mehr als {most}-mal. Ihn von dort noch einmal holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>{path}: not a list of tokens. Get it again.</source>
        <translation>{path}: keine Liste von Token. Sie noch einmal holen.</translation>
    </message>
    <message>
        <source>{path}: how {name} cuts a text is not known here: get tokenizer.json from where the model came from.</source>
        <translation>{path}: Wie {name} einen Text zerteilt, ist hier nicht bekannt: tokenizer.json von dort holen, wo das Modell herkommt.</translation>
    </message>
    <message>
        <source>A file of what was read of chats was of no use and is removed: {error}. The text is read again.</source>
        <translation>Eine Datei mit Gelesenem aus Chats war nicht zu gebrauchen und ist entfernt: {error}. Der Text wird noch einmal gelesen.</translation>
    </message>
    <message>
        <source>What was read of a chat takes {size}, more than all files of it may: it is kept in memory only.</source>
        <translation>Was aus einem Chat gelesen wurde, braucht {size}, mehr als alle Dateien davon dürfen: Es wird nur im Speicher behalten.</translation>
    </message>
    <message>
        <source>{folder} takes no more ({error}): what was read of chats is kept in memory only.</source>
        <translation>{folder} nimmt nichts mehr auf ({error}): Was aus Chats gelesen wurde, wird nur im Speicher behalten.</translation>
    </message>
    <message>
        <source>What files have of this text was computed differently: {told}. It is read again.</source>
        <translation>Was Dateien von diesem Text haben, wurde anders berechnet: {told}. Er wird noch einmal gelesen.</translation>
    </message>
    <message>
        <source>{origin}: {name} is quantised in a form that cannot be scaled, and Falcon-H1 scales it. Use the model as published, converted by mlx-lm, or as a GGUF.</source>
        <translation>{origin}: {name} ist in einer Form gepackt, die keinen Faktor aufnimmt, und Falcon-H1 hat einen dafür. Das Modell wie veröffentlicht nehmen, von mlx-lm konvertiert oder als GGUF.</translation>
    </message>
    <message>
        <source>two numbers that go up</source>
        <translation>zwei ansteigende Zahlen</translation>
    </message>
    <message>
        <source>a line is no message</source>
        <translation>eine Zeile ist keine Nachricht</translation>
    </message>
    <message>
        <source>it has no messages</source>
        <translation>sie enthält keine Nachrichten</translation>
    </message>
    <message>
        <source>The engine is closing: start the program again.</source>
        <translation>Die Engine wird beendet: das Programm neu starten.</translation>
    </message>
    <message>
        <source>Command Palette</source>
        <translation>Befehle suchen</translation>
    </message>
    <message>
        <source>Type a command</source>
        <translation>Befehl eingeben</translation>
    </message>
    <message>
        <source>Command</source>
        <translation>Befehl</translation>
    </message>
    <message>
        <source>Commands</source>
        <translation>Befehle</translation>
    </message>
    <message>
        <source>letters, digits, points, hyphens and underscores, 64 at most</source>
        <translation>Buchstaben, Ziffern, Punkte, Bindestriche und Unterstriche, höchstens 64</translation>
    </message>
    <message>
        <source>Quote</source>
        <translation>Zitieren</translation>
    </message>
    <message>
        <source>{name}: no answer can be bound to it ({why}). Change it.</source>
        <translation>{name}: Daran kann keine Antwort gebunden werden ({why}). Ändern Sie es.</translation>
    </message>
    <message>
        <source>The answer left its grammar.</source>
        <translation>Die Antwort hat ihre Grammatik verlassen.</translation>
    </message>
    <message>
        <source>schema, regex or grammar: it is too large for an answer to be bound to it ({why}). Make it smaller.</source>
        <translation>Schema, regulärer Ausdruck oder Grammatik: zu groß, um eine Antwort daran zu binden ({why}). Verkleinern Sie es.</translation>
    </message>
    <message>
        <source>{path} could not be moved to the Trash: its disk may have none, or may not be written to.</source>
        <translation>{path} ließ sich nicht in den Papierkorb legen: Sein Datenträger hat vielleicht keinen oder ist schreibgeschützt.</translation>
    </message>
    <message>
        <source>The server was switched off: ask again when it runs.</source>
        <translation>Der Server wurde ausgeschaltet: noch einmal fragen, wenn er läuft.</translation>
    </message>
    <message>
        <source>Another program uses port {port}: choose another one.</source>
        <translation>Ein anderes Programm benutzt Port {port}: einen anderen wählen.</translation>
    </message>
    <message>
        <source>activations={asked!r}: {path} runs in a class of mlx-lm, which needs a GPU for 16-bit floats. Use &quot;auto&quot;.</source>
        <translation>activations={asked!r}: {path} läuft in einer Klasse von mlx-lm, die für 16-Bit-Gleitkomma eine GPU braucht. „auto“ verwenden.</translation>
    </message>
    <message>
        <source>must_call: {name} is no tool of this chat.</source>
        <translation>must_call: {name} ist kein Werkzeug dieses Chats.</translation>
    </message>
    <message>
        <source>tools: calls of this model cannot be forced or strict, because its chat template does not show how it writes them. Let it choose, without strict.</source>
        <translation>tools: Aufrufe dieses Modells lassen sich nicht erzwingen oder an Schemas binden, weil seine Chatvorlage nicht zeigt, wie es sie schreibt. Lassen Sie es wählen, ohne strict.</translation>
    </message>
    <message>
        <source>tools: strict ones and regex or grammar cannot bind the same answer.</source>
        <translation>tools: strict und regex oder grammar können nicht dieselbe Antwort binden.</translation>
    </message>
    <message>
        <source>tools: this model&apos;s calls are JSON: use strict tools or a schema.</source>
        <translation>tools: Die Aufrufe dieses Modells sind JSON: Verwenden Sie strict oder ein Schema.</translation>
    </message>
    <message>
        <source>tools: {bounds} of {key} of {tool} cannot be kept in the form of calls that this model has. Leave it out.</source>
        <translation>tools: {bounds} von {key} von {tool} lässt sich in der Form der Aufrufe dieses Modells nicht einhalten. Lassen Sie es weg.</translation>
    </message>
    <message>
        <source>Drafting: a small part of the model guesses the next few words, and the whole model checks them in one go. The text stays the same; it only comes faster.</source>
        <translation>Entwürfe: Ein kleiner Teil des Modells rät die nächsten Wörter, und das ganze Modell prüft sie in einem Zug. Der Text bleibt derselbe; er kommt nur schneller.</translation>
    </message>
    <message>
        <source>Drafting heads are the small part of a model that guesses the next words.</source>
        <translation>Entwurfsköpfe sind der kleine Teil eines Modells, der die nächsten Wörter rät.</translation>
    </message>
    <message>
        <source>A token is a word or a piece of one: 100 tokens are about 75 words.</source>
        <translation>Ein Token ist ein Wort oder ein Stück davon: 100 Tokens sind etwa 75 Wörter.</translation>
    </message>
    <message>
        <source>A step is one check by the whole model; each right guess saves one.</source>
        <translation>Ein Schritt ist eine Prüfung durch das ganze Modell; was richtig geraten ist, spart je einen.</translation>
    </message>
    <message>
        <source>Parameters are the numbers a model is made of: more of them means it knows more but runs slower.</source>
        <translation>Parameter sind die Zahlen, aus denen ein Modell besteht: Mit mehr davon weiß es mehr, ist aber langsamer.</translation>
    </message>
    <message>
        <source>{percent:.0f}%</source>
        <translation>{percent:.0f}&#xa0;%</translation>
    </message>
    <message>
        <source>Guessed {ahead}</source>
        <translation>{ahead} geraten</translation>
    </message>
    <message>
        <source>Guessed by the drafting heads, {ahead}</source>
        <translation>Von den Entwurfsköpfen geraten, {ahead}</translation>
    </message>
    <message>
        <source>Guessed from a repeat in the chat, {ahead}</source>
        <translation>Aus einer Wiederholung im Chat geraten, {ahead}</translation>
    </message>
    <message>
        <source>Guessed by the draft model, {ahead}</source>
        <translation>Vom Entwurfsmodell geraten, {ahead}</translation>
    </message>
    <message>
        <source>Prescribed by the answer&apos;s schema, {ahead}</source>
        <translation>Vom Schema der Antwort vorgeschrieben, {ahead}</translation>
    </message>
    <message numerus="yes">
        <source>{n} tokens ahead</source>
        <comment>1 token ahead</comment>
        <translation>
            <numerusform>1 Token voraus</numerusform>
            <numerusform>{n} Tokens voraus</numerusform>
        </translation>
    </message>
    <message>
        <source>Now and then one step runs without guesses, to measure what drafting gains.</source>
        <translation>Ab und zu läuft ein Schritt ohne Raten, um zu messen, was Entwürfe bringen.</translation>
    </message>
    <message>
        <source>Other chats are answered at the same time: guesses would slow all of them.</source>
        <translation>Zugleich wird in anderen Chats geantwortet: Raten würde alle bremsen.</translation>
    </message>
    <message>
        <source>Drafting is paused: nothing can guess in this chat.</source>
        <translation>Entwürfe sind pausiert: In diesem Chat kann nichts raten.</translation>
    </message>
    <message>
        <source>a step with one guess takes {ratio:.2f} times as long as one without</source>
        <translation>ein Schritt mit einem geratenen Token dauert das {ratio:.2f}-fache von einem ohne</translation>
    </message>
    <message>
        <source>Drafting is paused: {cost}, so no guess can help.</source>
        <translation>Entwürfe sind pausiert: {cost}, also kann Raten nichts nützen.</translation>
    </message>
    <message>
        <source>Drafting is paused for a moment: it has saved too little time so far to risk wrong guesses.</source>
        <translation>Entwürfe sind kurz pausiert: Sie haben bisher zu wenig Zeit gespart, um falsches Raten zu riskieren.</translation>
    </message>
    <message>
        <source>Drafting is paused: {cost}, and only {percent:.0f}% of first guesses are right.</source>
        <translation>Entwürfe sind pausiert: {cost}, und nur {percent:.0f} % der ersten Vermutungen sind richtig.</translation>
    </message>
    <message>
        <source>Drafting is paused: {cost}, and only {percent:.0f}% of first guesses are expected to be right.</source>
        <translation>Entwürfe sind pausiert: {cost}, und nur {percent:.0f} % der ersten Vermutungen sind wohl richtig.</translation>
    </message>
    <message>
        <source>A quotation mark is not closed: close it.</source>
        <translation>Ein Anführungszeichen ist nicht geschlossen: Schließe es.</translation>
    </message>
    <message>
        <source>This is not JSON: {error}.</source>
        <translation>Das ist kein JSON: {error}.</translation>
    </message>
    <message>
        <source>No servers are in it: paste JSON like {&quot;mcpServers&quot;: {…}}.</source>
        <translation>Darin sind keine Server: Füge JSON wie {&quot;mcpServers&quot;: {…}} ein.</translation>
    </message>
    <message>
        <source>“{name}” is not described by an object.</source>
        <translation>„{name}“ ist nicht durch ein Objekt beschrieben.</translation>
    </message>
    <message>
        <source>“{name}”: “args” is not a list of texts.</source>
        <translation>„{name}“: „args“ ist keine Liste von Texten.</translation>
    </message>
    <message>
        <source>“{name}”: “{key}” is not an object of texts.</source>
        <translation>„{name}“: „{key}“ ist kein Objekt aus Texten.</translation>
    </message>
    <message>
        <source>A server needs a name without “/”.</source>
        <translation>Ein Server braucht einen Namen ohne „/“.</translation>
    </message>
    <message>
        <source>“{name}” needs a command or an address, not both.</source>
        <translation>„{name}“ braucht einen Befehl oder eine Adresse, nicht beides.</translation>
    </message>
    <message>
        <source>“{name}”: the address has to begin with http:// or https://.</source>
        <translation>„{name}“: Die Adresse muss mit http:// oder https:// beginnen.</translation>
    </message>
    <message>
        <source>The model asked for more than {most} tool calls, so it was stopped. Continue allows as many again.</source>
        <translation>Das Modell wollte mehr als {most} Werkzeuge aufrufen und wurde angehalten. Mit „Fortsetzen“ darf es noch einmal so viele.</translation>
    </message>
    <message>
        <source>The model can use tools, such as searching the web, once you add a tool server.</source>
        <translation>Das Modell kann Werkzeuge benutzen, etwa im Netz suchen, sobald du einen Werkzeug-Server hinzufügst.</translation>
    </message>
    <message>
        <source>What the model can use to answer in this chat. It asks you before each use.</source>
        <translation>Was das Modell in diesem Chat zum Antworten benutzen kann. Vor jedem Aufruf wirst du gefragt.</translation>
    </message>
    <message>
        <source>The form of every answer in this chat, after any thinking. JSON is a way to write data that programs can read; a JSON schema says what the data must have. A regular expression is a pattern that text must follow. Tools are off while a format is set.</source>
        <translation>Die Form jeder Antwort in diesem Chat, nach etwaigem Nachdenken. JSON ist eine Schreibweise für Daten, die Programme lesen können; ein JSON-Schema sagt, was die Daten haben müssen. Ein regulärer Ausdruck ist ein Muster, dem Text folgen muss. Werkzeuge sind aus, solange ein Format gesetzt ist.</translation>
    </message>
    <message>
        <source>JSON schema, or a regular expression. Empty: any text.</source>
        <translation>JSON-Schema oder regulärer Ausdruck. Leer: beliebiger Text.</translation>
    </message>
    <message>
        <source>Until this is corrected, answers keep the format set before.</source>
        <translation>Bis das berichtigt ist, behalten Antworten das zuletzt gesetzte Format.</translation>
    </message>
    <message>
        <source>Until this is corrected, answers can be any text.</source>
        <translation>Bis das berichtigt ist, können Antworten beliebiger Text sein.</translation>
    </message>
    <message>
        <source>Tools</source>
        <translation>Werkzeuge</translation>
    </message>
    <message>
        <source>Tool Servers…</source>
        <translation>Werkzeug-Server …</translation>
    </message>
    <message>
        <source>Ask Before Each Use Again</source>
        <translation>Wieder vor jeder Nutzung fragen</translation>
    </message>
    <message>
        <source>Add, change and remove the programs that give models tools</source>
        <translation>Programme, die Modellen Werkzeuge geben, hinzufügen, ändern und entfernen</translation>
    </message>
    <message>
        <source>Tools that you allowed in this chat ask you again</source>
        <translation>Werkzeuge, die du in diesem Chat erlaubt hast, fragen wieder</translation>
    </message>
    <message>
        <source>Answer format</source>
        <translation>Antwortformat</translation>
    </message>
    <message>
        <source>No answer can have this format ({why}).</source>
        <translation>Keine Antwort kann dieses Format haben ({why}).</translation>
    </message>
    <message>
        <source>A tool server is a program that gives models tools, such as searching the web or reading files (Model Context Protocol, MCP). Use servers that you trust only: they run with all your rights. Turn tools on for a chat in its settings; each call asks you first.</source>
        <translation>Ein Werkzeug-Server ist ein Programm, das Modellen Werkzeuge gibt, etwa um im Netz zu suchen oder Dateien zu lesen (Model Context Protocol, MCP). Benutze nur Server, denen du vertraust: Sie laufen mit all deinen Rechten. Schalte Werkzeuge in den Einstellungen eines Chats ein; vor jedem Aufruf wirst du gefragt.</translation>
    </message>
    <message>
        <source>npx -y some-server ~/Documents, or https://example.com/mcp, or JSON with mcpServers</source>
        <translation>npx -y ein-server ~/Documents oder https://example.com/mcp oder JSON mit mcpServers</translation>
    </message>
    <message>
        <source>Name of the tool server</source>
        <translation>Name des Werkzeug-Servers</translation>
    </message>
    <message>
        <source>What chats call the server. JSON has names of its own.</source>
        <translation>Wie der Server in Chats heißt. JSON hat eigene Namen.</translation>
    </message>
    <message>
        <source>Command, address or JSON of the tool server</source>
        <translation>Befehl, Adresse oder JSON des Werkzeug-Servers</translation>
    </message>
    <message>
        <source>Remove the tool server “{name}”?</source>
        <translation>Werkzeug-Server „{name}“ entfernen?</translation>
    </message>
    <message>
        <source>Chats no longer have its tools.</source>
        <translation>Chats haben seine Werkzeuge dann nicht mehr.</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>Entfernen</translation>
    </message>
    <message>
        <source>Add a tool server</source>
        <translation>Werkzeug-Server hinzufügen</translation>
    </message>
    <message>
        <source>Change “{name}”</source>
        <translation>„{name}“ ändern</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>Sichern</translation>
    </message>
    <message>
        <source>Add</source>
        <translation>Hinzufügen</translation>
    </message>
    <message>
        <source>There is a server “{name}” already: choose another name, or remove that one.</source>
        <translation>Einen Server „{name}“ gibt es schon: Wähle einen anderen Namen oder entferne jenen.</translation>
    </message>
    <message>
        <source>Change {name}</source>
        <translation>{name} ändern</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>Startet …</translation>
    </message>
    <message>
        <source>Starts when a chat needs it</source>
        <translation>Startet, wenn ein Chat ihn braucht</translation>
    </message>
    <message numerus="yes">
        <source>{n} tools</source>
        <comment>1 tool</comment>
        <translation>
            <numerusform>1 Werkzeug</numerusform>
            <numerusform>{n} Werkzeuge</numerusform>
        </translation>
    </message>
    <message>
        <source>left out, with a broken schema: {names}</source>
        <translation>ausgelassen wegen eines fehlerhaften Schemas: {names}</translation>
    </message>
    <message>
        <source>{tool}: no result</source>
        <translation>{tool}: kein Ergebnis</translation>
    </message>
    <message>
        <source>The model asks to use {tool}</source>
        <translation>Das Modell möchte {tool} benutzen</translation>
    </message>
    <message>
        <source>Calling {tool}…</source>
        <translation>{tool} wird aufgerufen …</translation>
    </message>
    <message>
        <source>Called {tool}</source>
        <translation>{tool} aufgerufen</translation>
    </message>
    <message>
        <source>{tool} failed</source>
        <translation>{tool} ist fehlgeschlagen</translation>
    </message>
    <message>
        <source>{tool}: not allowed</source>
        <translation>{tool}: nicht erlaubt</translation>
    </message>
    <message>
        <source>Allow Once</source>
        <translation>Einmal erlauben</translation>
    </message>
    <message>
        <source>Allow in This Chat</source>
        <translation>In diesem Chat erlauben</translation>
    </message>
    <message>
        <source>Don&apos;t Allow</source>
        <translation>Nicht erlauben</translation>
    </message>
    <message>
        <source>It runs on this computer or sends these arguments to a server.</source>
        <translation>Es läuft auf diesem Computer oder sendet diese Argumente an einen Server.</translation>
    </message>
    <message>
        <source>{tool} ({server})</source>
        <translation>{tool} ({server})</translation>
    </message>
    <message>
        <source>Arguments</source>
        <translation>Argumente</translation>
    </message>
    <message>
        <source>Result</source>
        <translation>Ergebnis</translation>
    </message>
    <message>
        <source>Each step waits for the one before it: memory is too short to prepare one early.</source>
        <translation>Jeder Schritt wartet auf den vorigen: Der Speicher reicht nicht, um einen früher vorzubereiten.</translation>
    </message>
    <message>
        <source>Chats answered at the same time take turns: this model can work on only one at a time.</source>
        <translation>Chats, die gleichzeitig beantwortet werden, wechseln sich ab: Dieses Modell kann nur an einem auf einmal arbeiten.</translation>
    </message>
    <message>
        <source>Each step waits for the one before it: which rows of a table are read from the disk depends on the tokens of that step.</source>
        <translation>Jeder Schritt wartet auf den vorigen: Welche Zeilen einer Tabelle von der Platte gelesen werden, hängt von dessen Tokens ab.</translation>
    </message>
    <message>
        <source>Chat memory stays in 16 bits: this model&apos;s numbers come in groups of {odd}, and 8 or 4 bits need a multiple of {least}.</source>
        <translation>Das Chat-Gedächtnis bleibt bei 16 Bits: Die Zahlen dieses Modells kommen in Gruppen zu {odd}, und 8 oder 4 Bits brauchen ein Vielfaches von {least}.</translation>
    </message>
    <message>
        <source>{origin}: this version cannot run models of the type {name}. Choose another model.</source>
        <translation>{origin}: Diese Version kann Modelle der Art {name} nicht ausführen. Ein anderes Modell wählen.</translation>
    </message>
    <message>
        <source>The drafting heads of {origin} seem not to fit this model: in a test text they guessed {agreed} of {judged} tokens that the model was sure of. They may belong to another model, or to another version of this one. The text stays right, but drafting hardly speeds it up.</source>
        <translation>Die Entwurfsköpfe von {origin} passen wohl nicht zu diesem Modell: In einem Prüftext errieten sie {agreed} von {judged} Tokens, bei denen das Modell sicher war. Vielleicht gehören sie zu einem anderen Modell oder zu einer anderen Fassung von diesem. Der Text bleibt richtig, doch Entwürfe machen ihn kaum schneller.</translation>
    </message>
    <message>
        <source>Headstart made a mistake. Your chats are kept; the window goes on.</source>
        <translation>Headstart hat einen Fehler gemacht. Die Chats sind gesichert; es geht weiter.</translation>
    </message>
    <message>
        <source>Tools need a package that is not installed: pip install &apos;headstart[tools]&apos;.</source>
        <translation>Für Werkzeuge fehlt ein Paket: pip install &apos;headstart[tools]&apos;.</translation>
    </message>
    <message>
        <source>“{name}” did not answer within {seconds:.0f} s.</source>
        <translation>„{name}“ hat nicht innerhalb von {seconds:.0f} s geantwortet.</translation>
    </message>
    <message>
        <source>“{name}”: there is no program {command}. Check its command in Settings, Tools.</source>
        <translation>„{name}“: Es gibt kein Programm {command}. Den Befehl in Einstellungen, Werkzeuge prüfen.</translation>
    </message>
    <message>
        <source>“{name}” can&apos;t be reached at {url}. Is it running?</source>
        <translation>„{name}“ ist unter {url} nicht erreichbar. Läuft er?</translation>
    </message>
    <message>
        <source>“{name}” failed as a tool server, without a reason.</source>
        <translation>„{name}“ ist als Werkzeug-Server gescheitert, ohne einen Grund zu nennen.</translation>
    </message>
    <message>
        <source>“{name}” failed as a tool server ({why}).</source>
        <translation>„{name}“ ist als Werkzeug-Server gescheitert ({why}).</translation>
    </message>
    <message>
        <source>a layer of attention or Mamba</source>
        <translation>eine Schicht mit Attention oder Mamba</translation>
    </message>
    <message>
        <source>{words} Leave the pictures out, or use a model that sees them.</source>
        <translation>{words} Lassen Sie die Bilder weg, oder nehmen Sie ein Modell, das sie sieht.</translation>
    </message>
    <message>
        <source>A picture of {width} x {height} pixels takes {needed} of memory to look at, and the model leaves {free}. Make the picture smaller, or take a smaller model.</source>
        <translation>Ein Bild mit {width} x {height} Pixeln braucht {needed} Speicher, um betrachtet zu werden, und das Modell lässt {free} übrig. Verkleinern Sie das Bild, oder nehmen Sie ein kleineres Modell.</translation>
    </message>
    <message>
        <source>{origin}: the chat template has no place for pictures. Get the template that was published with the model, or leave the pictures out.</source>
        <translation>{origin}: Die Chat-Vorlage hat keinen Platz für Bilder. Holen Sie die Vorlage, die mit dem Modell veröffentlicht wurde, oder lassen Sie die Bilder weg.</translation>
    </message>
    <message>
        <source>This model&apos;s files ask for cut-outs of long pictures beside the whole one (pan and scan); each picture is read whole here, once.</source>
        <translation>Die Dateien dieses Modells verlangen Ausschnitte langer Bilder neben dem ganzen (Pan and Scan); hier wird jedes Bild einmal und im Ganzen gelesen.</translation>
    </message>
    <message>
        <source>This model sees no pictures: it was made for text alone.</source>
        <translation>Dieses Modell sieht keine Bilder: Es ist nur für Text gemacht.</translation>
    </message>
    <message>
        <source>The picture part of this model is of a kind that this version does not run; its text part runs.</source>
        <translation>Der Bildteil dieses Modells ist von einer Art, die diese Version nicht ausführt; sein Textteil läuft.</translation>
    </message>
    <message>
        <source>The picture part of this model is not beside it: put the model&apos;s mmproj file (GGUF) into its folder and load the model again, or name it in the load options.</source>
        <translation>Der Bildteil dieses Modells liegt nicht daneben: die mmproj-Datei (GGUF) des Modells in seinen Ordner legen und das Modell neu laden, oder sie in den Ladeoptionen nennen.</translation>
    </message>
    <message>
        <source>The picture part of this model is not in its files: this copy of it is for text alone.</source>
        <translation>Der Bildteil dieses Modells fehlt in seinen Dateien: Diese Kopie ist nur für Text.</translation>
    </message>
    <message>
        <source>{origin}: the picture part makes {made} numbers of a token, the text part reads {wanted}. They belong to different models.</source>
        <translation>{origin}: Der Bildteil macht aus einem Token {made} Zahlen, der Textteil liest {wanted}. Sie gehören zu verschiedenen Modellen.</translation>
    </message>
    <message>
        <source>Pictures cannot be read. {error}</source>
        <translation>Bilder können nicht gelesen werden. {error}</translation>
    </message>
    <message>
        <source>numbers of linear_attention layers</source>
        <translation>Nummern von linear_attention-Schichten</translation>
    </message>
    <message>
        <source>silu or sigmoid</source>
        <translation>silu oder sigmoid</translation>
    </message>
    <message>
        <source>A picture of {width} x {height} pixels is too long for this model: cut it so that no side is more than {most} times the other.</source>
        <translation>Ein Bild von {width} x {height} Pixeln ist für dieses Modell zu lang: Schneiden Sie es so zu, dass keine Seite mehr als das {most}-Fache der anderen ist.</translation>
    </message>
    <message>
        <source>The picture</source>
        <translation>Das Bild</translation>
    </message>
    <message>
        <source>{name}: moves, and models read still pictures only. Save one frame of it as PNG.</source>
        <translation>{name}: bewegt sich, und Modelle lesen nur stehende Bilder. Speichern Sie ein Einzelbild davon als PNG.</translation>
    </message>
    <message>
        <source>{path}: no such file. Check its name and folder.</source>
        <translation>{path}: Es gibt keine solche Datei. Namen und Ordner prüfen.</translation>
    </message>
    <message>
        <source>{name}: a picture is a path, the bytes of an image file, or a Pillow image.</source>
        <translation>{name}: Ein Bild ist ein Pfad, der Inhalt einer Bilddatei oder ein Pillow-Bild.</translation>
    </message>
    <message>
        <source>{name}: not a picture in PNG, JPEG, WebP, GIF or BMP. Save it as one of these.</source>
        <translation>{name}: kein Bild in PNG, JPEG, WebP, GIF oder BMP. Speichern Sie es in einem dieser Formate.</translation>
    </message>
    <message>
        <source>{name}: the picture is damaged or not complete ({error}). Save or copy it again.</source>
        <translation>{name}: Das Bild ist beschädigt oder unvollständig ({error}). Speichern oder kopieren Sie es noch einmal.</translation>
    </message>
    <message>
        <source>{name}: larger than {most} million pixels or 100 MB. Make it smaller; models see pictures in far fewer pixels.</source>
        <translation>{name}: größer als {most} Millionen Pixel oder 100 MB. Verkleinern Sie es; Modelle sehen Bilder in viel weniger Pixeln.</translation>
    </message>
    <message>
        <source>{path}: the picture part of another model.</source>
        <translation>{path}: der Bildteil eines anderen Modells.</translation>
    </message>
    <message>
        <source>{width} × {height} pixels</source>
        <translation>{width} × {height} Pixel</translation>
    </message>
    <message>
        <source>Picture {number}</source>
        <translation>Bild {number}</translation>
    </message>
    <message>
        <source>{size}: open it large</source>
        <translation>{size}: groß öffnen</translation>
    </message>
    <message>
        <source>Copy Picture</source>
        <translation>Bild kopieren</translation>
    </message>
    <message>
        <source>Picture, {size}</source>
        <translation>Bild, {size}</translation>
    </message>
    <message>
        <source>{path}: a draft model of DeepSeek-V4&apos;s layers, which this version does not run from GGUF. Draft with the heads of the model, a small model or prompt lookup.</source>
        <translation>{path}: ein Entwurfsmodell mit Schichten von DeepSeek-V4, die diese Version aus GGUF nicht ausführt. Mit den Köpfen des Modells, einem kleinen Modell oder mit Suche entwerfen.</translation>
    </message>
    <message>
        <source>{path}: d2t is no list of tokens. Get the file again.</source>
        <translation>{path}: d2t ist keine Liste von Tokens. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{origin}: the tensor {name} is missing, and that of the target is {hidden_size} wide, not {hidden}. Get the file again.</source>
        <translation>{origin}: Der Tensor {name} fehlt, und der des Zielmodells ist {hidden_size} breit, nicht {hidden}. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>Chat memory stays in 16 bits: this model already keeps one entry for several tokens.</source>
        <translation>Das Chat-Gedächtnis bleibt bei 16 Bits: Dieses Modell merkt sich ohnehin nur einen Eintrag für mehrere Tokens.</translation>
    </message>
    <message>
        <source>{file}: {name} is stored as {dtype} {shape}, whose scales {scales} do not fit. Get the file again.</source>
        <translation>{file}: {name} ist als {dtype} {shape} gespeichert, und die Skalen {scales} passen nicht dazu. Die Datei noch einmal holen.</translation>
    </message>
    <message>
        <source>{name} is a picture of a kind that this system does not read, or of several pages: save it as JPEG or PNG, pages as PDF.</source>
        <translation>{name} ist ein Bild von einer Art, die dieses System nicht liest, oder mit mehreren Seiten: als JPEG oder PNG sichern, Seiten als PDF.</translation>
    </message>
    <message>
        <source>A picture cannot be read. {error}</source>
        <translation>Ein Bild kann nicht gelesen werden. {error}</translation>
    </message>
    <message>
        <source>A picture of this chat is not there any more: attach it again.</source>
        <translation>Ein Bild dieses Chats ist nicht mehr da: Fügen Sie es neu an.</translation>
    </message>
    <message>
        <source>{origin}: the config names no dspark_target_layer_ids. Get it again.</source>
        <translation>{origin}: Die Konfiguration nennt keine dspark_target_layer_ids. Neu besorgen.</translation>
    </message>
    <message>
        <source>a layer behind the first</source>
        <translation>eine Schicht hinter der ersten</translation>
    </message>
    <message>
        <source>a number for each layer</source>
        <translation>eine Zahl für jede Schicht</translation>
    </message>
    <message>
        <source>layers that select entries, too, one for each change of compress_ratios</source>
        <translation>Schichten, die auch Einträge auswählen, eine für jeden Wechsel von compress_ratios</translation>
    </message>
</context>
</TS>
